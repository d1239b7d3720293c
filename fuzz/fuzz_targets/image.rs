#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| webservice_fuzz::image(text));
