//! Calls of the API server, counted where they arrive: in its audit log.
//!
//! A line is written when a request is answered, by a few threads, so it may follow the answer by a moment. Hence marks:
//! a request that nobody else makes, and once its line is there, so are those of all requests answered before.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use serde::Deserialize;

use super::controller::FENCE;
use super::eventually::{eventually, within};
use super::must::Must;
use super::namespace::TestNamespace;
use super::objects::Objects;

/// A position in the audit log.
#[derive(Clone, Copy, Debug)]
pub struct Mark(u64);

pub(super) struct Audit {
    log: PathBuf,
    config_maps: Objects,
    marker: String,
}

impl Audit {
    pub(super) fn of(namespace: &TestNamespace) -> Self {
        Self {
            log: namespace.cluster().audit_log_path(),
            config_maps: namespace.config_maps(),
            marker: format!("audit-marker-{}-{}", namespace.name(), namespace.next()),
        }
    }

    pub(super) async fn mark(&self) -> Mark {
        let now = File::open(&self.log).and_then(|file| file.metadata()).must("look at the audit log").len();
        // Not read: the first line may be one that was half written.
        self.lines_until_marker(now).await.0
    }

    /// Everybody's, on the whole cluster.
    pub(super) async fn calls_since(&self, mark: &Mark) -> Calls {
        let (_, lines) = self.lines_until_marker(mark.0).await;
        Calls(lines.iter().filter_map(|line| parse(line)).collect())
    }

    /// The lines after position `start` until a marker that is set now, and the position behind it.
    async fn lines_until_marker(&self, start: u64) -> (Mark, Vec<String>) {
        self.config_maps.find(&self.marker).await;
        let mut position = start;
        let mut before = Vec::new();
        let mark = eventually("the audit log shows the marker", async || {
            for line in complete_lines(&self.log, &mut position).must("read the audit log") {
                if line.contains(&self.marker) {
                    return Ok(Mark(position));
                }
                before.push(line);
            }
            Err("no marker yet")
        });
        (mark.await, before)
    }

    /// The calls after the mark, as they come.
    pub(super) fn follow(&self, mark: Mark) -> Tail {
        Tail { log: self.log.clone(), position: mark.0 }
    }
}

/// The end of the audit log, as it grows.
pub struct Tail {
    log: PathBuf,
    position: u64,
}

impl Tail {
    /// The calls, of whomever, that were answered since the last time.
    pub fn read(&mut self) -> Calls {
        let lines = complete_lines(&self.log, &mut self.position).must("read the audit log");
        Calls(lines.iter().filter_map(|line| parse(line)).collect())
    }

    /// Waits until there were so many such calls, and gives them.
    pub async fn await_calls(
        &mut self,
        deadline: Duration,
        what: &str,
        count: usize,
        mut is_it: impl FnMut(&Call) -> bool,
    ) -> Vec<Call> {
        let mut found = Vec::new();
        within(deadline, what, async || {
            found.extend(self.read().0.into_iter().filter(&mut is_it));
            if found.len() >= count { Ok(()) } else { Err(format!("{} of {count} calls", found.len())) }
        })
        .await;
        found
    }
}

/// The lines from `position` on, which moves behind the last one that is complete.
fn complete_lines(log: &Path, position: &mut u64) -> io::Result<Vec<String>> {
    let mut file = File::open(log)?;
    file.seek(SeekFrom::Start(*position))?;
    let mut reader = BufReader::new(file);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        let read = reader.by_ref().read_line(&mut line)?;
        if !line.ends_with('\n') {
            return Ok(lines);
        }
        *position += read as u64;
        lines.push(line);
    }
}

/// Calls in the order in which they were answered.
#[derive(Clone, Debug, Default)]
pub struct Calls(Vec<Call>);

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Such as `patch`; `watch` also for one that goes on.
    pub verb: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// Such as `webservices/status`.
    pub resource: String,
    /// Where the object is; empty for what is in none, and for all of them.
    pub namespace: String,
    /// The object; empty for collections.
    pub name: String,
    /// The status code of the answer.
    pub code: u16,
    /// Who made it.
    pub user: String,
    /// The program that made it, in its own words.
    pub agent: String,
    /// When it arrived.
    pub received: Timestamp,
    /// What was noted beside it, by webhooks among others.
    pub annotations: BTreeMap<String, String>,
    /// When it was answered; of a watch, when it began or ended.
    pub answered: Timestamp,
}

impl From<Vec<Call>> for Calls {
    fn from(calls: Vec<Call>) -> Self {
        Self(calls)
    }
}

impl Calls {
    /// All that a log holds.
    ///
    /// # Errors
    /// It cannot be read, or a line is none of an audit log.
    pub fn of(log: &Path) -> anyhow::Result<Self> {
        let lines =
            complete_lines(log, &mut 0).with_context(|| format!("failed to read {}", log.display()))?;
        let mut calls = Vec::new();
        for line in lines {
            calls.extend(try_parse(&line).with_context(|| format!("failed to read the audit line {line}"))?);
        }
        Ok(Self(calls))
    }

    /// Those of one user.
    #[must_use]
    pub fn by(mut self, user: &str) -> Self {
        self.0.retain(|call| call.user == user);
        self
    }

    /// Adds later ones.
    pub fn append(&mut self, later: Self) {
        self.0.extend(later.0);
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Call] {
        &self.0
    }

    /// The writes to WebServices and children, each as `VERB RESOURCE NAME` and with the code of one that was refused,
    /// sorted. Fences, events and leases are not among them.
    #[must_use]
    pub fn writes(&self) -> Vec<String> {
        self.named(|call| call.is_write() && !call.is_beside())
    }

    /// The reads of single objects and of collections, but for watches that were only taken up again.
    #[must_use]
    pub fn reads(&self) -> Vec<String> {
        self.named(|call| ["get", "list"].contains(&call.verb.as_str()))
    }

    /// The writes of candidates for one Lease, each after another of them had taken the lead: nobody may make one.
    #[must_use]
    pub fn out_of_turn(&self, candidates: &[&str]) -> Vec<&Call> {
        let all = || self.0.iter().filter(|call| candidates.contains(&call.user.as_str()));
        let has_held = |call: &&Call| call.resource == "leases" && call.is_write() && call.code < 300;
        let held: Vec<_> = all().filter(has_held).collect();
        let is_out_of_turn = |write: &&Call| {
            held.iter().any(|other| {
                let has_led_since = |lease: &&Call| {
                    lease.user == write.user
                        && other.received < lease.received
                        && lease.received < write.received
                };
                other.user != write.user
                    && other.answered < write.received
                    && !held.iter().copied().any(|lease| has_led_since(&lease))
            })
        };
        all().filter(|call| call.has_written()).filter(is_out_of_turn).collect()
    }

    /// The most writes that were under way at one moment.
    #[must_use]
    pub fn most_writes_at_a_time(&self) -> usize {
        let writes = self.0.iter().filter(|call| call.has_written());
        // At the same moment ends come before beginnings.
        let mut steps: Vec<_> = writes.flat_map(|call| [(call.received, 1), (call.answered, -1)]).collect();
        steps.sort_unstable();
        let under_way = steps.iter().scan(0_isize, |under_way, (_, step)| {
            *under_way += step;
            Some(*under_way)
        });
        under_way.max().unwrap_or(0).unsigned_abs()
    }

    /// How many events were sent.
    #[must_use]
    pub fn events(&self) -> usize {
        self.0.iter().filter(|call| call.is_write() && call.resource == "events").count()
    }

    fn named(&self, is_wanted: impl Fn(&Call) -> bool) -> Vec<String> {
        let wanted = self.0.iter().filter(|call| is_wanted(call) && !call.name.starts_with(FENCE));
        let mut lines: Vec<_> = wanted.map(ToString::to_string).collect();
        lines.sort();
        lines
    }
}

impl Call {
    /// Whether it may have changed something.
    #[must_use]
    pub fn is_write(&self) -> bool {
        !["get", "list", "watch"].contains(&self.verb.as_str())
    }

    /// Whether it has changed a WebService or a child.
    #[must_use]
    pub fn has_written(&self) -> bool {
        self.is_write() && !self.is_beside() && self.code < 300
    }

    /// Whether it has changed a status.
    #[must_use]
    pub fn is_report(&self) -> bool {
        self.resource == "webservices/status" && self.has_written()
    }

    /// Whether it is counted apart.
    fn is_beside(&self) -> bool {
        ["events", "leases"].contains(&self.resource.as_str())
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { verb, resource, name, code, .. } = self;
        write!(f, "{verb} {resource} {name}")?;
        if *code >= 400 { write!(f, " ({code})") } else { Ok(()) }
    }
}

/// A line in the format of `audit.k8s.io/v1`, as far as it is needed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    verb: String,
    user: User,
    #[serde(default)]
    user_agent: String,
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
    request_received_timestamp: Timestamp,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    stage_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct User {
    /// Missing where nobody knows who it was.
    #[serde(default)]
    username: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectRef {
    #[serde(default)]
    api_group: String,
    resource: String,
    subresource: Option<String>,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    code: u16,
}

/// The call of one line; none where it is about no resource.
fn parse(line: &str) -> Option<Call> {
    try_parse(line).must(&format!("read the audit line {line}"))
}

fn try_parse(line: &str) -> serde_json::Result<Option<Call>> {
    let line: Line = serde_json::from_str(line)?;
    let Some(object) = line.object_ref else { return Ok(None) };
    let resource = match object.subresource {
        Some(subresource) => format!("{}/{subresource}", object.resource),
        None => object.resource,
    };
    Ok(Some(Call {
        verb: line.verb,
        group: object.api_group,
        resource,
        namespace: object.namespace,
        name: object.name,
        code: line.response_status.map_or(0, |status| status.code),
        user: line.user.username,
        agent: line.user_agent,
        received: line.request_received_timestamp,
        annotations: line.annotations,
        answered: line.stage_timestamp,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(verb: &str, object: &str, code: u16) -> String {
        format!(
            r#"{{"stage":"ResponseComplete","verb":"{verb}","user":{{"username":"me"}},"objectRef":{object},"responseStatus":{{"metadata":{{}},"code":{code}}},"requestReceivedTimestamp":"2026-01-01T00:00:00.000001Z","stageTimestamp":"2026-01-01T00:00:00.001001Z"}}"#
        )
    }

    fn calls(lines: &[String]) -> Calls {
        Calls(lines.iter().filter_map(|line| parse(line)).collect())
    }

    #[test]
    fn writes_are_told_with_their_subresource_and_a_refusal_with_its_code() {
        let calls = calls(&[
            line("patch", r#"{"resource":"webservices","subresource":"status","name":"a"}"#, 200),
            line("create", r#"{"resource":"configmaps","name":"a-desired"}"#, 403),
            line("watch", r#"{"resource":"configmaps"}"#, 200),
        ]);
        assert_eq!(calls.writes(), ["create configmaps a-desired (403)", "patch webservices/status a"]);
    }

    #[test]
    fn events_and_fences_are_counted_apart() {
        let calls = calls(&[
            line("create", r#"{"resource":"events","name":"a.1"}"#, 201),
            line("create", r#"{"resource":"configmaps","name":"fence-1-desired"}"#, 201),
        ]);
        assert_eq!((calls.writes().len(), calls.events()), (0, 1));
    }

    fn at(second: i64, user: &str, resource: &str) -> Call {
        let received = Timestamp::from_second(second).unwrap();
        let answered = received + jiff::SignedDuration::from_millis(1);
        let (verb, name) = ("patch".to_owned(), String::new());
        let (resource, user, annotations) = (resource.into(), user.into(), BTreeMap::new());
        let [group, namespace, agent] = [const { String::new() }; 3];
        Call {
            verb,
            group,
            resource,
            namespace,
            name,
            code: 200,
            user,
            agent,
            annotations,
            received,
            answered,
        }
    }

    #[test]
    fn a_write_after_another_has_taken_the_lead_is_out_of_turn() {
        let mut calls = Calls(vec![
            at(0, "a", "leases"),
            at(1, "a", "configmaps"),
            at(2, "b", "leases"),
            at(3, "b", "configmaps"),
            at(3, "somebody", "configmaps"),
        ]);
        assert_eq!(calls.out_of_turn(&["a", "b"]), Vec::<&Call>::new());
        calls.append(Calls(vec![at(4, "a", "configmaps")]));
        assert_eq!(calls.out_of_turn(&["a", "b"]), [&at(4, "a", "configmaps")]);
        calls.append(Calls(vec![at(5, "a", "leases"), at(6, "a", "configmaps")]));
        assert_eq!(calls.out_of_turn(&["a", "b"]).len(), 1, "it leads again");
    }

    #[test]
    fn writes_that_overlap_are_counted_at_a_time() {
        let mut calls = Calls(vec![at(0, "a", "configmaps"), at(1, "a", "configmaps")]);
        assert_eq!(calls.most_writes_at_a_time(), 1);
        calls.append(Calls(vec![at(1, "a", "webservices")]));
        assert_eq!(calls.most_writes_at_a_time(), 2);
    }

    #[test]
    fn a_call_about_no_resource_is_none() {
        let line = r#"{"verb":"get","user":{"username":"me"},"requestURI":"/readyz","requestReceivedTimestamp":"2026-01-01T00:00:00Z","stageTimestamp":"2026-01-01T00:00:00Z"}"#;
        assert_eq!(parse(line), None);
    }
}
