// SPDX-License-Identifier: Apache-2.0
//
// Runs the program of ../cpp_host, which was exported from JAX, from Rust: rust_host PROGRAM PLUGIN.
mod callout;

use callout::*;
use std::ffi::{c_void, CString};
use std::mem::size_of_val;
use std::process::ExitCode;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

fn callback(name: &str, function: Function) -> Result<Owned, String> {
    let name = CString::new(name).map_err(|e| e.to_string())?;
    let closure = closure(function);
    Owned::make(callout_callback_destroy, |out| unsafe {
        callout_callback_from_closure(name.as_ptr(), &closure, out)
    })
}

fn run(program: &str, plugin: &str) -> Result<([f32; 4], usize), String> {
    // A call: the program waits for its result. Steps get smaller as the training goes on.
    let rate = callback(
        "learning_rate",
        Box::new(|call| {
            call.set(
                0,
                if call.scalar::<i32>(0) < 10 {
                    0.8f32
                } else {
                    0.4
                },
            );
            Ok(())
        }),
    )?;
    // A tap: the program goes on, and this function gets the values in order on a delivery thread.
    let losses = Arc::new(AtomicUsize::new(0));
    let counted = losses.clone();
    let loss = callback(
        "loss",
        Box::new(move |call| {
            println!("loss {:.6}", call.scalar::<f32>(0));
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }),
    )?;

    let program = CString::new(program).map_err(|e| e.to_string())?;
    let plugin = CString::new(plugin).map_err(|e| e.to_string())?;
    let mut weights = [0f32; 4];
    unsafe {
        let plugin = Owned::make(callout_plugin_destroy, |out| {
            callout_plugin_load(plugin.as_ptr(), out)
        })?;
        let client = Owned::make(callout_client_destroy, |out| {
            callout_client_create(plugin.handle, null(), out)
        })?;
        let program = Owned::make(callout_program_destroy, |out| {
            callout_program_from_file(program.as_ptr(), out)
        })?;
        let callbacks = [rate.handle, loss.handle];
        let options = CompileOptions {
            struct_size: std::mem::size_of::<CompileOptions>(),
            callbacks: callbacks.as_ptr(),
            num_callbacks: callbacks.len(),
            num_replicas: 0,
            num_partitions: 0,
            device_assignment: null(),
            num_assigned: 0,
        };
        let train = Owned::make(callout_executable_destroy, |out| {
            callout_compile(client.handle, program.handle, &options, out)
        })?;
        const F32: u32 = 11; // XLA's number, as in callout/dtype.h
        let dims = [4i64];
        let size = size_of_val(&weights);
        let data = weights.as_mut_ptr() as *mut c_void;
        let start = Owned::make(callout_array_destroy, |out| {
            callout_array_from_host(client.handle, 0, F32, dims.as_ptr(), 1, data, size, out)
        })?;
        let mut output = null_mut();
        check(callout_execute(
            train.handle,
            &start.handle,
            1,
            null(),
            &mut output,
            1,
        ))?;
        let trained = Owned::make(callout_array_destroy, |out| {
            *out = output;
            null_mut()
        })?;
        check(callout_barrier_wait(-1.0))?;
        check(callout_array_to_host(trained.handle, data, size))?;
    }
    Ok((weights, losses.load(Ordering::Relaxed)))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.len() != 3 {
        eprintln!("usage: {} PROGRAM PLUGIN", arguments[0]);
        return ExitCode::from(2);
    }
    match run(&arguments[1], &arguments[2]) {
        Ok((weights, steps)) => {
            println!("weights {weights:.3?} after {steps} steps");
            ExitCode::from(if (weights[3] - 4.0).abs() < 0.05 {
                0
            } else {
                1
            })
        }
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}
