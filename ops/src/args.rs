//! Values of flags, as people write them.

use std::time::Duration;

use jiff::SignedDuration;

/// A length of time: `5s`, `500ms`, `1m30s`, `0s`.
///
/// # Errors
/// A remedy, for whoever wrote something else.
pub fn duration(text: &str) -> Result<Duration, String> {
    let remedy = "write a length of time such as 5s, 500ms or 1m30s";
    let signed: SignedDuration = text.parse().map_err(|_| remedy.to_owned())?;
    Duration::try_from(signed).map_err(|_| remedy.to_owned())
}

/// A length of time above zero.
///
/// # Errors
/// A remedy, for whoever wrote something else.
pub fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("write a length of time above zero, such as 1s".to_owned()),
        positive => Ok(positive),
    }
}

/// A number of things, from 1 to a million.
///
/// # Errors
/// A remedy, for whoever wrote something else.
pub fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=1_000_000) => Ok(count),
        _ => Err("write a whole number from 1 to 1000000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_as_people_write_them() {
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
    }

    #[test]
    fn what_is_no_length_of_time_is_answered_with_a_remedy() {
        for text in ["soon", "-5s", "", "5"] {
            assert!(duration(text).unwrap_err().contains("5s"), "{text}");
        }
        assert!(positive_duration("0s").is_err());
    }

    #[test]
    fn counts_begin_at_one() {
        assert_eq!(count("1"), Ok(1));
        assert!(count("0").is_err() && count("-1").is_err() && count("1000001").is_err());
    }
}
