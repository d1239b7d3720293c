//! How a draft is decoded: member by member, from whatever stands there.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{Draft, Json, MAX_UNKNOWN, Metadata, Spec, SpecShape};

impl<'de: 'a, 'a> Deserialize<'de> for Json<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Json::Absent)
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(Json::Absent)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Json::Integer(value))
    }

    #[allow(
        clippy::cast_precision_loss,
        reason = "beyond 64 bits the exact value no longer matters: it is out of every range"
    )]
    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(i64::try_from(value).map_or(Json::Number(value as f64), Json::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Json::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Json::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(Json::Text(Cow::Borrowed(value)))
    }

    fn visit_string<E>(self, value: String) -> Result<Self::Value, E> {
        Ok(Json::Text(Cow::Owned(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = seq.next_element()? {
            entries.push(entry);
        }
        Ok(Json::List(entries))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = map.next_key::<Name<'de>>()? {
            members.push((name.into_text(), map.next_value()?));
        }
        Ok(Json::Object(members))
    }
}

/// A member's name, borrowed where the input has no escapes in it. It is compared as bytes: only one that is told to a person
/// has to be text.
struct Name<'a>(Cow<'a, [u8]>);

impl<'a> Name<'a> {
    fn into_text(self) -> Cow<'a, str> {
        match self.0 {
            Cow::Borrowed(name) => String::from_utf8_lossy(name),
            Cow::Owned(name) => Cow::Owned(String::from_utf8_lossy(&name).into_owned()),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(NameVisitor)
    }
}

struct NameVisitor;

impl<'de> Visitor<'de> for NameVisitor {
    type Value = Name<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_borrowed_bytes<E>(self, name: &'de [u8]) -> Result<Self::Value, E> {
        Ok(Name(Cow::Borrowed(name)))
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Name(Cow::Borrowed(name.as_bytes())))
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Name(Cow::Owned(name.as_bytes().to_vec())))
    }
}

/// Something that is filled member by member, and stays as it is when the value is no object.
trait Fill<'de>: Default {
    /// Takes the value of the member called `name`, or skips it.
    fn member<A: MapAccess<'de>>(&mut self, name: Name<'de>, map: &mut A) -> Result<(), A::Error>;

    /// Told when the value was an object.
    fn is_object(&mut self) {}

    /// Told when the value was anything else.
    fn is_other(&mut self, _value: Json<'de>) {}
}

struct FillVisitor<T>(PhantomData<T>);

/// Forwards everything that is no object to [`JsonVisitor`], so that the two can never disagree about JSON.
macro_rules! other_than_object {
    ($($method:ident($($arg:ident: $kind:ty)?)),* $(,)?) => {
        $(fn $method<E: serde::de::Error>(self, $($arg: $kind)?) -> Result<Self::Value, E> {
            let mut filled = T::default();
            filled.is_other(JsonVisitor.$method($($arg)?)?);
            Ok(filled)
        })*
    };
}

impl<'de, T: Fill<'de>> Visitor<'de> for FillVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    other_than_object! {
        visit_unit(),
        visit_none(),
        visit_bool(value: bool),
        visit_i64(value: i64),
        visit_u64(value: u64),
        visit_f64(value: f64),
        visit_str(value: &str),
        visit_borrowed_str(value: &'de str),
        visit_string(value: String),
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        let mut filled = T::default();
        filled.is_other(Json::List(Vec::new()));
        Ok(filled)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut filled = T::default();
        filled.is_object();
        while let Some(name) = map.next_key()? {
            filled.member(name, &mut map)?;
        }
        Ok(filled)
    }
}

macro_rules! deserialize_by_filling {
    ($($type:ident),*) => {$(
        impl<'de: 'a, 'a> Deserialize<'de> for $type<'a> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(FillVisitor::<$type<'de>>(PhantomData))
            }
        }
    )*};
}

deserialize_by_filling!(Draft, Metadata, Spec);

impl<'de> Fill<'de> for Draft<'de> {
    fn member<A: MapAccess<'de>>(&mut self, name: Name<'de>, map: &mut A) -> Result<(), A::Error> {
        match &*name.0 {
            b"apiVersion" => self.api_version = map.next_value()?,
            b"kind" => self.kind = map.next_value()?,
            b"metadata" => self.metadata = map.next_value()?,
            b"spec" => self.spec = map.next_value()?,
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

impl<'de> Fill<'de> for Metadata<'de> {
    fn member<A: MapAccess<'de>>(&mut self, name: Name<'de>, map: &mut A) -> Result<(), A::Error> {
        match &*name.0 {
            b"name" => self.name = map.next_value()?,
            b"generateName" => self.generate_name = map.next_value()?,
            b"deletionTimestamp" => self.deletion_timestamp = map.next_value()?,
            b"finalizers" => self.finalizers = map.next_value()?,
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }

    fn is_object(&mut self) {
        self.is_object = true;
    }
}

impl<'de> Fill<'de> for Spec<'de> {
    fn member<A: MapAccess<'de>>(&mut self, name: Name<'de>, map: &mut A) -> Result<(), A::Error> {
        match &*name.0 {
            b"image" => self.image = map.next_value()?,
            b"replicas" => self.replicas = map.next_value()?,
            b"tier" => self.tier = map.next_value()?,
            b"dependsOn" => self.depends_on = map.next_value()?,
            b"suspend" => self.suspend = map.next_value()?,
            _ => {
                map.next_value::<IgnoredAny>()?;
                if self.unknown.len() < MAX_UNKNOWN {
                    self.unknown.push(name.into_text());
                }
            }
        }
        Ok(())
    }

    fn is_object(&mut self) {
        self.shape = SpecShape::Object;
    }

    fn is_other(&mut self, value: Json<'de>) {
        self.shape = match value {
            Json::Absent => SpecShape::Absent,
            other => SpecShape::Other(other),
        };
    }
}
