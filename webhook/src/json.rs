//! Reading of JSON in one pass that borrows what it can and hurries past what nobody asks for.
//!
//! Most of a review is of no interest here: managedFields, annotations, status, who asks. `serde_json` looks at every byte of
//! what it skips; for a review of 64 KB that is three quarters of all work. So the structure is walked here, [`skip`] leaps
//! over whole objects and lists, and what remains, numbers and escaped strings, is left to `serde_json`: about those the two
//! cannot disagree.
//!
//! Of what is read nothing but JSON is accepted. Of what is skipped it is only checked that strings and brackets are closed,
//! so that a review which was cut off is refused. What it says in between has no part in the decision.

mod condense;
mod skip;

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

pub use self::condense::Condensed;

/// Depth of nesting that is followed, as in `serde_json`: the stack is finite. What is skipped may be deeper.
const MAX_DEPTH: u8 = 127;

/// Why a text cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Error(Cow<'static, str>);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string().into())
    }
}

impl From<serde_json::Error> for Error {
    /// Its position is that within a single number or string.
    fn from(error: serde_json::Error) -> Self {
        let message = error.to_string();
        let end = message.rfind(" at line ").unwrap_or(message.len());
        Self(message[..end].to_owned().into())
    }
}

fn fail<T>(message: &'static str) -> Result<T, Error> {
    Err(Error(message.into()))
}

/// Reads one value that fills the whole text.
///
/// # Errors
/// What does not fit, and at which byte.
pub(crate) fn from_slice<'de, T: Deserialize<'de>>(text: &'de [u8]) -> Result<T, Error> {
    let mut json = Json { text, at: 0, depth: 0 };
    let value = T::deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    value.map_err(|Error(message)| Error(format!("{message} at byte {}", json.at).into()))
}

/// A text and how far it was read.
struct Json<'de> {
    text: &'de [u8],
    at: usize,
    depth: u8,
}

impl<'de> Json<'de> {
    /// The next byte that is no white space; it is not stepped over.
    fn peek(&mut self) -> Result<u8, Error> {
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b' ' | b'\n' | b'\t' | b'\r' => self.at += 1,
                _ => return Ok(*byte),
            }
        }
        fail("the text ends too early")
    }

    fn end(&mut self) -> Result<(), Error> {
        if self.peek().is_ok() { fail("there is more behind the value") } else { Ok(()) }
    }

    /// Steps over what was measured from here on.
    fn take(&mut self, length: usize) -> &'de [u8] {
        let (taken, _) = self.text[self.at..].split_at_checked(length).unwrap_or_default();
        self.at += taken.len();
        taken
    }

    /// The content of the string that begins here, where it is free of escapes; otherwise nothing is stepped over.
    fn plain(&mut self) -> Option<&'de [u8]> {
        let rest = &self.text[self.at + 1..];
        let length = skip::plain(rest);
        if rest.get(length) != Some(&b'"') {
            return None;
        }
        self.at += length + 2;
        Some(&rest[..length])
    }

    /// The string that begins here, quotation marks included.
    fn quoted(&mut self) -> Result<&'de [u8], Error> {
        match skip::string(&self.text[self.at..]) {
            Some(length) => Ok(self.take(length)),
            None => fail("a string is not closed"),
        }
    }

    fn string<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        match self.plain().map(std::str::from_utf8) {
            Some(Ok(text)) => visitor.visit_borrowed_str(text),
            Some(Err(_)) => fail("a string is not UTF-8"),
            None => by_serde_json(self.quoted()?, visitor),
        }
    }

    /// The number, `true`, `false` or `null` that begins here, whether it is well formed or not.
    fn word(&mut self) -> Result<&'de [u8], Error> {
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'E' | b'+' | b'-' | b'.');
        let rest = &self.text[self.at..];
        match rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len()) {
            0 => fail("a value is missing"),
            length => Ok(self.take(length)),
        }
    }

    fn skip(&mut self) -> Result<(), Error> {
        match self.peek()? {
            b'"' if self.plain().is_some() => {}
            b'"' => _ = self.quoted()?,
            b'{' | b'[' => match skip::container(&self.text[self.at..]) {
                Some(length) => _ = self.take(length),
                None => return fail("a bracket is not closed"),
            },
            _ => _ = serde_json::from_slice::<de::IgnoredAny>(self.word()?)?,
        }
        Ok(())
    }

    /// Reads the entries of an object or a list, whose opening bracket is next.
    fn entries<T>(
        &mut self,
        closing: u8,
        read: impl FnOnce(&mut Entries<'_, 'de>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.depth == MAX_DEPTH {
            return fail("the nesting is too deep");
        }
        self.at += 1;
        self.depth += 1;
        let mut entries = Entries { json: self, closing, state: State::Opened };
        let value = read(&mut entries)?;
        if entries.state != State::Closed {
            return fail("there are too many entries");
        }
        self.depth -= 1;
        Ok(value)
    }
}

/// A number, a word or a string by itself, of which `serde_json` knows all the rules.
fn by_serde_json<'de, V: Visitor<'de>>(text: &'de [u8], visitor: V) -> Result<V::Value, Error> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let value = json.deserialize_any(visitor)?;
    json.end()?;
    Ok(value)
}

impl<'de> Deserializer<'de> for &mut Json<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.peek()? {
            b'"' => self.string(visitor),
            b'{' => self.entries(b'}', |entries| visitor.visit_map(entries)),
            b'[' => self.entries(b']', |entries| visitor.visit_seq(entries)),
            _ => by_serde_json(self.word()?, visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.peek()? != b'n' {
            return visitor.visit_some(self);
        }
        by_serde_json(self.word()?, de::IgnoredAny)?;
        visitor.visit_none()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    /// Only variants without content, which are strings.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.peek()? != b'"' {
            return fail("a string is missing");
        }
        let quoted = self.quoted()?;
        Ok(serde_json::Deserializer::from_slice(quoted).deserialize_enum(name, variants, visitor)?)
    }

    /// The name of a member is compared, and so need not be text.
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.plain() {
            Some(name) => visitor.visit_borrowed_bytes(name),
            None => by_serde_json(self.quoted()?, visitor),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.skip()?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct
    }
}

/// The members of an object or the entries of a list, one after the other.
struct Entries<'j, 'de> {
    json: &'j mut Json<'de>,
    closing: u8,
    state: State,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Behind the opening bracket.
    Opened,
    /// Behind an entry.
    Within,
    /// Behind the closing bracket.
    Closed,
}

impl Entries<'_, '_> {
    /// Steps to the next entry, if there is one, or over the closing bracket.
    fn advance(&mut self) -> Result<bool, Error> {
        if self.state == State::Closed {
            return Ok(false);
        }
        let byte = self.json.peek()?;
        if byte == self.closing {
            self.json.at += 1;
            self.state = State::Closed;
            return Ok(false);
        }
        if self.state == State::Within {
            if byte != b',' {
                return fail("a comma or a closing bracket is missing");
            }
            self.json.at += 1;
        }
        self.state = State::Within;
        Ok(true)
    }
}

impl<'de> SeqAccess<'de> for Entries<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        if self.advance()? { seed.deserialize(&mut *self.json).map(Some) } else { Ok(None) }
    }
}

impl<'de> MapAccess<'de> for Entries<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        if !self.advance()? {
            return Ok(None);
        }
        if self.json.peek()? != b'"' {
            return fail("the name of a member is missing");
        }
        seed.deserialize(&mut *self.json).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        if self.json.peek()? != b':' {
            return fail("a colon is missing");
        }
        self.json.at += 1;
        seed.deserialize(&mut *self.json)
    }
}

#[cfg(test)]
mod tests;
