// SPDX-License-Identifier: Apache-2.0
// The declarations of callout/abi.h and callout/c_api.h that the program needs, and closures made from Rust functions.
use std::ffi::{c_char, c_void, CStr};
use std::mem::size_of;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null_mut;

#[repr(C)]
pub struct Buffer {
    pub dtype: u32,
    pub rank: u32,
    pub data: *mut c_void,
    pub dims: *const i64,
    pub size_bytes: u64,
}

/// The first fields of callout_call. The fields behind them are not needed here.
#[repr(C)]
pub struct Call {
    pub struct_size: usize,
    pub num_args: u32,
    pub num_results: u32,
    pub args: *const Buffer,
    pub results: *const Buffer,
    pub run_id: i64,
    pub device_ordinal: i32,
    pub platform: u32,
    pub error_context: *mut c_void,
    pub set_error: unsafe extern "C" fn(*mut c_void, i32, *const c_char, usize),
}

impl Call {
    /// The scalar that is operand `i`.
    pub fn scalar<T: Copy>(&self, i: usize) -> T {
        assert!(i < self.num_args as usize);
        let buffer = unsafe { &*self.args.add(i) };
        assert_eq!(buffer.size_bytes as usize, size_of::<T>());
        unsafe { *(buffer.data as *const T) }
    }

    /// Fills the scalar that is result `i`.
    pub fn set<T: Copy>(&self, i: usize, value: T) {
        assert!(i < self.num_results as usize);
        let buffer = unsafe { &*self.results.add(i) };
        assert_eq!(buffer.size_bytes as usize, size_of::<T>());
        unsafe { *(buffer.data as *mut T) = value }
    }
}

#[repr(C)]
pub struct Closure {
    struct_size: usize,
    call: unsafe extern "C" fn(*mut c_void, *const Call) -> i32,
    context: *mut c_void,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
}

pub type Function = Box<dyn Fn(&Call) -> Result<(), String> + Send + Sync>;

unsafe extern "C" fn call(context: *mut c_void, call: *const Call) -> i32 {
    let function = &*(context as *const Function);
    let outcome = catch_unwind(AssertUnwindSafe(|| function(&*call)));
    let text = match outcome {
        Ok(Ok(())) => return 0,
        Ok(Err(text)) => text,
        Err(_) => "the function panicked".to_string(),
    };
    ((*call).set_error)(
        (*call).error_context,
        13,
        text.as_ptr() as *const c_char,
        text.len(),
    );
    13
}

unsafe extern "C" fn destroy(context: *mut c_void) {
    drop(Box::from_raw(context as *mut Function));
}

/// For callout_callback_from_closure, which owns the function if it succeeds.
pub fn closure(function: Function) -> Closure {
    let context = Box::into_raw(Box::new(function)) as *mut c_void;
    Closure {
        struct_size: size_of::<Closure>(),
        call,
        context,
        destroy: Some(destroy),
    }
}

/// The first fields of callout_compile_options. `struct_size` tells the library how many there are.
#[repr(C)]
pub struct CompileOptions {
    pub struct_size: usize,
    pub callbacks: *const Handle,
    pub num_callbacks: usize,
    pub num_replicas: i32,
    pub num_partitions: i32,
    pub device_assignment: *const i32,
    pub num_assigned: usize,
}

/// A callout_plugin, callout_client and so on.
pub type Handle = *mut c_void;
type Status = *mut c_void;

extern "C" {
    pub fn callout_status_code(status: Status) -> i32;
    pub fn callout_status_message(status: Status) -> *const c_char;
    pub fn callout_status_destroy(status: Status);
    pub fn callout_callback_from_closure(
        name: *const c_char,
        closure: *const Closure,
        out: *mut Handle,
    ) -> Status;
    pub fn callout_callback_destroy(callback: Handle);
    pub fn callout_barrier_wait(timeout_seconds: f64) -> Status;
    pub fn callout_plugin_load(path: *const c_char, out: *mut Handle) -> Status;
    pub fn callout_plugin_destroy(plugin: Handle);
    pub fn callout_client_create(
        plugin: Handle,
        options: *const c_void,
        out: *mut Handle,
    ) -> Status;
    pub fn callout_client_destroy(client: Handle);
    pub fn callout_program_from_file(path: *const c_char, out: *mut Handle) -> Status;
    pub fn callout_program_destroy(program: Handle);
    pub fn callout_compile(
        client: Handle,
        program: Handle,
        options: *const CompileOptions,
        out: *mut Handle,
    ) -> Status;
    pub fn callout_executable_destroy(executable: Handle);
    pub fn callout_array_from_host(
        client: Handle,
        device: usize,
        dtype: u32,
        dims: *const i64,
        rank: usize,
        data: *const c_void,
        size_bytes: usize,
        out: *mut Handle,
    ) -> Status;
    pub fn callout_array_to_host(array: Handle, data: *mut c_void, size_bytes: usize) -> Status;
    pub fn callout_array_destroy(array: Handle);
    pub fn callout_execute(
        executable: Handle,
        arguments: *const Handle,
        num_arguments: usize,
        options: *const c_void,
        outputs: *mut Handle,
        num_outputs: usize,
    ) -> Status;
}

/// Takes ownership of the status.
pub fn check(status: Status) -> Result<(), String> {
    if status.is_null() {
        return Ok(());
    }
    unsafe {
        let text = CStr::from_ptr(callout_status_message(status))
            .to_string_lossy()
            .into_owned();
        let code = callout_status_code(status);
        callout_status_destroy(status);
        Err(format!("{code}: {text}"))
    }
}

/// An object that the library made, with the function that destroys it.
pub struct Owned {
    pub handle: Handle,
    destroy: unsafe extern "C" fn(Handle),
}

impl Owned {
    pub fn make(
        destroy: unsafe extern "C" fn(Handle),
        make: impl FnOnce(*mut Handle) -> Status,
    ) -> Result<Owned, String> {
        let mut handle = null_mut();
        check(make(&mut handle))?;
        Ok(Owned { handle, destroy })
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        unsafe { (self.destroy)(self.handle) }
    }
}
