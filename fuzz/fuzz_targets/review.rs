#![no_main]

libfuzzer_sys::fuzz_target!(|body: &[u8]| webservice_fuzz::review(body));
