#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fairstream_fuzz::check("state", bytes));
