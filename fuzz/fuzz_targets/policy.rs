#![no_main]

libfuzzer_sys::fuzz_target!(|yaml: &[u8]| webservice_fuzz::policy(yaml));
