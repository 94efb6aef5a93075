// SPDX-License-Identifier: Apache-2.0
//
// Links to the Callout that pkg-config finds.
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let asked = Command::new("pkg-config")
        .args(["--variable=libdir", "callout"])
        .output();
    let found = asked.expect("pkg-config is not installed");
    assert!(
        found.status.success(),
        "{}",
        String::from_utf8_lossy(&found.stderr)
    );
    let folder = String::from_utf8(found.stdout).expect("a path that is UTF-8");
    println!("cargo:rustc-link-search=native={}", folder.trim());
    println!("cargo:rustc-link-lib=dylib=callout");
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.trim());
}
