use crate::run;

#[test]
fn wrong_usage_is_exit_code_2() {
    for args in
        [&["plan"] as &[&str], &["frobnicate"], &["validate"], &["observe", "checkout", "-o", "xml"], &[]]
    {
        assert_eq!(run(args).code, 2, "{args:?}");
    }
}

#[test]
fn every_command_explains_itself() {
    for command in ["observe", "plan", "reconcile", "validate", "explain"] {
        let help = run(&[command, "--help"]);
        assert_eq!(help.code, 0);
        assert!(help.stdout.contains(&format!("Usage: kubectl webservice {command}")), "{}", help.stdout);
    }
}
