//! The thread functions that the standard library wants and Debian's `wasi-libc` lacks.
//!
//! Linked into guests that Debian's compiler builds, and only there. A guest has one thread:
//! starting another fails with `EAGAIN`, and `std::thread::spawn` reports that as its error.
//!
//! There is no `core` for the target yet when this is compiled, so it brings what a function
//! signature needs.

#![feature(no_core, lang_items)]
#![no_core]
#![allow(internal_features)]

#[lang = "pointee_sized"]
pub trait PointeeSized {}

#[lang = "meta_sized"]
pub trait MetaSized: PointeeSized {}

#[lang = "sized"]
pub trait Sized: MetaSized {}

#[lang = "copy"]
pub trait Copy {}

/// WASI's number for it.
const EAGAIN: i32 = 6;

#[unsafe(no_mangle)]
pub extern "C" fn pthread_attr_init(_attributes: usize) -> i32 {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_attr_setstacksize(_attributes: usize, _bytes: usize) -> i32 {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_attr_destroy(_attributes: usize) -> i32 {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_create(
    _thread: usize,
    _attributes: usize,
    _start: usize,
    _argument: usize,
) -> i32 {
    EAGAIN
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_join(_thread: usize, _result: usize) -> i32 {
    EAGAIN
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_detach(_thread: usize) -> i32 {
    EAGAIN
}
