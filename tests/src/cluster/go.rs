//! The Go toolchain, which builds the real Kubernetes from the modules in `tests/cluster/`.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use sha2::{Digest, Sha256};
use tempfile::TempPath;
use tokio::process::Command;
use tokio::time::timeout;

use super::tree;

/// kube-apiserver takes four minutes on two idle cores.
const BUILD_DEADLINE: Duration = Duration::from_hours(1);
const VERSION_DEADLINE: Duration = Duration::from_secs(30);
/// How many lines of the compiler's complaints are shown.
const TAIL: usize = 20;
/// Applies to every build. The static binaries also run in images without a libc.
const FLAGS: [&str; 3] = ["-trimpath", "-buildvcs=false", "-mod=readonly"];
/// A `go.work` in a directory above the checkout is nothing to us.
const ENVIRONMENT: [(&str, &str); 2] = [("CGO_ENABLED", "0"), ("GOWORK", "off")];

/// A Go module in `tests/cluster/`.
pub(super) struct Module {
    directory: PathBuf,
    go_mod: String,
}

impl Module {
    /// Opens `tests/cluster/NAME`.
    pub(super) fn open(name: &str) -> Result<Self> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("cluster").join(name);
        let path = directory.join("go.mod");
        let go_mod =
            fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
        Ok(Self { directory, go_mod })
    }

    /// The version of a module that this one requires, such as `v1.37.2`.
    pub(super) fn requires(&self, module: &str) -> Option<&str> {
        required_version(&self.go_mod, module)
    }

    /// Says whether binaries must be built anew: it changes with the sources, the flags and the toolchain.
    pub(super) async fn fingerprint(&self) -> Result<String> {
        let mut hash = Sha256::new();
        hash.update(self.toolchain_version().await?);
        hash.update(FLAGS.join(" "));
        hash.update(self.linker_flags());
        hash.update(self.tags());
        tree::hash(&mut hash, &self.directory, |_| true)?;
        let digest = <[u8; 32]>::from(hash.finalize());
        Ok(format!("{:016x}", u64::from_be_bytes(*digest.first_chunk().unwrap_or(&[0; 8]))))
    }

    /// Builds one command of the module. The output appears at once or not at all.
    pub(super) async fn build(&self, package: &str, output: &Path) -> Result<()> {
        let temporary = output.with_added_extension(format!("{}.tmp", std::process::id()));
        let temporary = TempPath::try_from_path(temporary)?;
        let mut command = self.go("build");
        command.args(FLAGS).arg("-ldflags").arg(self.linker_flags()).arg("-tags").arg(self.tags());
        command.arg("-o").arg(&temporary).arg(package);
        run(command, BUILD_DEADLINE).await.with_context(|| format!("failed to build {package}"))?;
        temporary.persist(output).with_context(|| format!("failed to write {}", output.display()))
    }

    /// The directory with the sources of a module that this one requires; they are downloaded if they are missing.
    pub(super) async fn sources(&self, module: &str) -> Result<PathBuf> {
        #[derive(serde::Deserialize)]
        struct Downloaded {
            #[serde(rename = "Dir")]
            directory: PathBuf,
        }
        let mut command = self.go("mod");
        command.args(["download", "-json", module]);
        let output =
            run(command, BUILD_DEADLINE).await.with_context(|| format!("failed to download {module}"))?;
        let downloaded: Downloaded = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("failed to read what go says about {module}"))?;
        Ok(downloaded.directory)
    }

    async fn toolchain_version(&self) -> Result<Vec<u8>> {
        Ok(run(self.go("version"), VERSION_DEADLINE).await?.stdout)
    }

    fn go(&self, subcommand: &str) -> Command {
        let mut command = Command::new("go");
        command.arg(subcommand).current_dir(&self.directory).envs(ENVIRONMENT);
        command
    }

    /// promtool comes with a client for every cloud, unless it is told otherwise.
    fn tags(&self) -> &'static str {
        self.requires("github.com/prometheus/prometheus").map_or("", |_| "remove_all_sd")
    }

    /// Kubernetes learns its own version from the linker, else it calls itself v0.0.0-master, also in user agents.
    fn linker_flags(&self) -> String {
        let mut flags = vec!["-s -w".to_owned()];
        if let Some(version) = self.requires("k8s.io/kubernetes") {
            let mut numbers = version.trim_start_matches('v').split('.');
            let (major, minor) = (numbers.next().unwrap_or(""), numbers.next().unwrap_or(""));
            for package in ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"] {
                flags.push(format!("-X {package}.gitVersion={version}"));
                flags.push(format!("-X {package}.gitMajor={major} -X {package}.gitMinor={minor}"));
            }
        }
        flags.join(" ")
    }
}

/// Finds `MODULE VERSION` among the requirements of a go.mod, see <https://go.dev/ref/mod#go-mod-file-require>.
fn required_version<'a>(go_mod: &'a str, module: &str) -> Option<&'a str> {
    go_mod.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| *word == "require");
        let found = words.next() == Some(module);
        words.next().filter(|version| found && version.starts_with('v'))
    })
}

/// Runs the toolchain in silence; only when it fails, the end of what it said is part of the error.
async fn run(mut command: Command, deadline: Duration) -> Result<Output> {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| cannot_run(error, command.as_std().get_program()))?;
    let mut group = ProcessGroup(child.id());
    let output = timeout(deadline, child.wait_with_output())
        .await
        .with_context(|| format!("go was not done within {} min", deadline.as_secs() / 60))??;
    group.0 = None;
    if !output.status.success() {
        bail!("{}:\n{}", output.status, tail(&output.stderr));
    }
    Ok(output)
}

fn cannot_run(error: std::io::Error, program: &OsStr) -> anyhow::Error {
    let program = program.display();
    if error.kind() == ErrorKind::NotFound {
        return anyhow!(
            "failed to find {program}: install Go 1.26 or newer from https://go.dev/dl/ and add it to PATH"
        );
    }
    anyhow::Error::new(error).context(format!("failed to run {program}"))
}

/// Ends the toolchain with all its compilers when the wait for it is given up, by a deadline or by Ctrl-C.
struct ProcessGroup(Option<u32>);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let leader = self.0.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(leader) = leader {
            _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

fn tail(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(TAIL)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GO_MOD: &str = "module example
go 1.26.0
require single.example/a v1.0.0
require (
\tk8s.io/kubernetes v1.37.2 // indirect
)
replace k8s.io/api => k8s.io/api v0.37.2
";

    #[test]
    fn a_required_version_is_found_in_a_block_and_on_a_line_of_its_own() {
        assert_eq!(required_version(GO_MOD, "k8s.io/kubernetes"), Some("v1.37.2"));
        assert_eq!(required_version(GO_MOD, "single.example/a"), Some("v1.0.0"));
    }

    #[test]
    fn what_is_only_replaced_or_absent_has_no_required_version() {
        assert_eq!(required_version(GO_MOD, "k8s.io/api"), None);
        assert_eq!(required_version(GO_MOD, "k8s.io/kube"), None);
        assert_eq!(required_version(GO_MOD, "go"), None);
    }

    #[test]
    fn kubernetes_learns_its_version_from_the_linker() {
        let module = Module { directory: PathBuf::new(), go_mod: GO_MOD.into() };
        let flags = module.linker_flags();
        assert!(flags.contains("version.gitVersion=v1.37.2"), "{flags}");
        assert!(flags.contains("version.gitMajor=1") && flags.contains("version.gitMinor=37"), "{flags}");
    }

    #[test]
    fn other_modules_need_no_version() {
        let module = Module { directory: PathBuf::new(), go_mod: "module example\n".into() };
        assert_eq!(module.linker_flags(), "-s -w");
    }

    #[tokio::test]
    async fn a_missing_toolchain_is_one_sentence_with_a_remedy() {
        let missing = Command::new("go-that-is-not-there");
        let error = run(missing, VERSION_DEADLINE).await.unwrap_err();
        assert!(format!("{error:#}").contains("install Go 1.26 or newer"), "{error:#}");
    }

    #[tokio::test]
    async fn a_failure_shows_the_end_of_what_was_said() {
        let mut command = Command::new("sh");
        command.args(["-c", "seq 1 100 >&2; exit 2"]);
        let error = run(command, VERSION_DEADLINE).await.unwrap_err().to_string();
        assert!(error.ends_with("99\n100") && !error.contains("\n80\n"), "{error}");
    }

    #[tokio::test]
    async fn giving_up_ends_the_whole_process_group() {
        let directory = tempfile::tempdir().unwrap();
        let pid_file = directory.path().join("pid");
        let mut command = Command::new("sh");
        command.args(["-c", "sh -c 'echo $$ > pid.tmp; mv pid.tmp pid; exec sleep 60'; :"]);
        command.current_dir(directory.path());
        let running = run(command, VERSION_DEADLINE);
        let compiler_is_there = async {
            while !pid_file.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            _ = running => panic!("it sleeps for a minute"),
            () = compiler_is_there => {}
        }
        let pid: u32 = fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
        let compiler = super::super::process::ProcessId::of(pid);
        assert!(compiler.is_none_or(|process| process.wait(Duration::from_secs(10))));
    }
}
