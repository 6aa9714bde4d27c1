//! Fields of foreign documents, each of which may be missing, null or of another type without harm to the rest.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::oddity::{Odd, What};
use super::{Moment, TimeError};

/// A field as it was found.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Field<T> {
    /// It is not there.
    #[default]
    Absent,
    /// It is null.
    Null,
    /// It is what it should be.
    Is(T),
    /// It is something else.
    Wrong {
        /// What it is.
        found: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
}

impl<T> Field<T> {
    /// The value, where there is one. A value of another type is reported under `key`.
    pub(super) fn take(self, key: &str, odd: &mut Odd) -> Option<T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Absent | Self::Null => None,
            Self::Wrong { found, wanted } => {
                odd.add(What::WrongType { key: key.to_owned(), found, wanted });
                None
            }
        }
    }

    /// Whether the key was there, whatever its value.
    pub(super) fn is_there(&self) -> bool {
        !matches!(self, Self::Absent)
    }
}

/// A number as it is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    /// A whole number from 0.
    Whole(u64),
    /// Any other.
    Float(f64),
}

impl Number {
    fn as_float(self) -> f64 {
        match self {
            Self::Whole(number) => number as f64,
            Self::Float(number) => number,
        }
    }
}

/// What a field can hold. A kind of value that a type does not take stays `None`.
pub(super) trait Shape<'de>: Sized {
    /// What it should be, for messages.
    const WANTED: &'static str;

    fn text(_: &str) -> Option<Self> {
        None
    }

    fn boolean(_: bool) -> Option<Self> {
        None
    }

    fn number(_: Number) -> Option<Self> {
        None
    }

    fn object<A: MapAccess<'de>>(mut map: A) -> Result<Option<Self>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn array<A: SeqAccess<'de>>(mut items: A) -> Result<Option<Self>, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

impl Shape<'_> for String {
    const WANTED: &'static str = "a text";

    fn text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

impl Shape<'_> for bool {
    const WANTED: &'static str = "true or false";

    fn boolean(value: bool) -> Option<Self> {
        Some(value)
    }
}

impl Shape<'_> for f64 {
    const WANTED: &'static str = "a number";

    fn number(number: Number) -> Option<Self> {
        Some(number.as_float())
    }
}

impl Shape<'_> for u64 {
    const WANTED: &'static str = "a whole number from 0";

    fn number(number: Number) -> Option<Self> {
        match number {
            Number::Whole(number) => Some(number),
            // Python writes a whole number as a float where one took part in its sum; 2^53 is where floats get gaps.
            Number::Float(number)
                if number.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&number) =>
            {
                Some(number as Self)
            }
            Number::Float(_) => None,
        }
    }
}

/// A time in whatever form.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Time {
    written: String,
    read: Result<Moment, TimeError>,
}

impl Shape<'_> for Time {
    const WANTED: &'static str = "a time";

    fn text(text: &str) -> Option<Self> {
        Some(Self::of(text))
    }

    fn number(number: Number) -> Option<Self> {
        let number = number.as_float();
        Some(Self { written: number.to_string(), read: Moment::from_number(number) })
    }
}

impl Time {
    /// A time that is written as text.
    pub(super) fn of(text: &str) -> Self {
        Self { written: text.chars().take(60).collect(), read: Moment::parse(text) }
    }

    /// The moment; a time that no rule covers is reported.
    pub(super) fn moment(self, key: &str, odd: &mut Odd) -> Option<Moment> {
        match self.read {
            Ok(moment) => Some(moment),
            Err(why) => {
                odd.add(What::Time { key: key.to_owned(), text: self.written, why });
                None
            }
        }
    }
}

impl Field<Time> {
    /// The moment; a time that no rule covers is reported.
    pub(super) fn moment(self, key: &str, odd: &mut Odd) -> Option<Moment> {
        self.take(key, odd)?.moment(key, odd)
    }
}

/// A reward: a number, or a truth value, which Python takes for one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RewardNumber(pub(super) f64);

impl Shape<'_> for RewardNumber {
    const WANTED: &'static str = "a number";

    fn number(number: Number) -> Option<Self> {
        Some(Self(number.as_float()))
    }

    fn boolean(value: bool) -> Option<Self> {
        Some(Self(f64::from(u8::from(value))))
    }
}

/// An object with known keys.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Shape<'de> for Object<T> {
    const WANTED: &'static str = "an object";

    fn object<A: MapAccess<'de>>(map: A) -> Result<Option<Self>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Self).map(Some)
    }
}

impl<'de, T: Shape<'de>> Shape<'de> for BTreeMap<String, Field<T>> {
    const WANTED: &'static str = "an object";

    fn object<A: MapAccess<'de>>(map: A) -> Result<Option<Self>, A::Error> {
        Self::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }
}

impl<'de, T: Shape<'de>> Shape<'de> for Vec<Field<T>> {
    const WANTED: &'static str = "a list";

    fn array<A: SeqAccess<'de>>(items: A) -> Result<Option<Self>, A::Error> {
        Self::deserialize(SeqAccessDeserializer::new(items)).map(Some)
    }
}

/// How many items a list has, whatever they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Length(pub(super) usize);

impl<'de> Shape<'de> for Length {
    const WANTED: &'static str = "a list";

    fn array<A: SeqAccess<'de>>(mut items: A) -> Result<Option<Self>, A::Error> {
        let mut length = 0;
        while items.next_element::<IgnoredAny>()?.is_some() {
            length += 1;
        }
        Ok(Some(Self(length)))
    }
}

impl<'de, T: Shape<'de>> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue(PhantomData))
    }
}

struct AnyValue<T>(PhantomData<T>);

fn is<'de, T: Shape<'de>>(value: Option<T>, found: &'static str) -> Field<T> {
    value.map_or(Field::Wrong { found, wanted: T::WANTED }, Field::Is)
}

impl<'de, T: Shape<'de>> Visitor<'de> for AnyValue<T> {
    type Value = Field<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Field::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(is(T::boolean(value), "a truth value"))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(is(T::number(Number::Whole(value)), "a number"))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(is(T::number(Number::Float(value as f64)), "a number"))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(is(T::number(Number::Float(value)), "a number"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok(is(T::text(value), "a text"))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Ok(is(T::object(map)?, "an object"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Self::Value, A::Error> {
        Ok(is(T::array(items)?, "a list"))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, Default)]
    #[serde(default)]
    struct Sample {
        name: Field<String>,
        count: Field<u64>,
        at: Field<Time>,
        inner: Field<Object<Box<Sample>>>,
        rewards: Field<BTreeMap<String, Field<RewardNumber>>>,
    }

    #[test]
    fn one_odd_field_leaves_the_others_alone() {
        let text = "{\"name\":[{\"deep\":[1]}],\"count\":3.0,\"other\":{\"x\":[null]},\"at\":{},\"inner\":{\"name\":\"b\",\"count\":-1},\
                    \"rewards\":{\"a\":1,\"b\":true,\"c\":\"1\",\"d\":null}}";
        let sample: Sample = serde_json::from_str(text).unwrap();
        let mut odd = Odd::default();
        assert_eq!(sample.name.take("name", &mut odd), None);
        assert_eq!(sample.count.take("count", &mut odd), Some(3));
        assert_eq!(sample.at.moment("at", &mut odd), None);
        let inner = sample.inner.take("inner", &mut odd).unwrap().0;
        assert_eq!(inner.name.take("inner.name", &mut odd).as_deref(), Some("b"));
        assert_eq!(inner.count.take("inner.count", &mut odd), None);
        assert!(!inner.at.is_there());
        let rewards = sample.rewards.take("rewards", &mut odd).unwrap();
        assert_eq!(rewards["a"], Field::Is(RewardNumber(1.0)));
        assert_eq!(rewards["b"], Field::Is(RewardNumber(1.0)));
        assert_eq!(rewards["c"], Field::Wrong { found: "a text", wanted: "a number" });
        assert_eq!(rewards["d"], Field::Null);
        let said: Vec<_> = odd.at("x.json").map(|oddity| oddity.to_string()).collect();
        assert_eq!(
            said,
            [
                "x.json: `name` is a list instead of a text",
                "x.json: `at` is an object instead of a time",
                "x.json: `inner.count` is a number instead of a whole number from 0",
            ]
        );
    }
}
