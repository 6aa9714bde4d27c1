//! One value, and how it is looked into.

use std::borrow::Cow;

/// A value. Objects keep the order of their keys; of a key that stands twice the last value counts and the first place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json<'a> {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// A number as it is written.
    Number(Cow<'a, str>),
    /// A text.
    Text(Cow<'a, str>),
    /// A list.
    List(Vec<Json<'a>>),
    /// An object.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl<'a> Json<'a> {
    /// The value under a key; `None` also where this is no object.
    pub(crate) fn get(&self, key: &str) -> Option<&Json<'a>> {
        match self {
            Self::Object(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The value under a key, unless it is null.
    pub(crate) fn some(&self, key: &str) -> Option<&Json<'a>> {
        self.get(key).filter(|value| !matches!(value, Self::Null))
    }

    /// The text.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The text under a key.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_text()
    }

    /// The elements; none where this is no list.
    pub(crate) fn items(&self) -> &[Json<'a>] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    /// The elements under a key, where there is a list.
    pub(crate) fn list(&self, key: &str) -> Option<&[Json<'a>]> {
        match self.get(key)? {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// The number, unless it is not finite.
    pub(crate) fn as_number(&self) -> Option<f64> {
        match self {
            Self::Number(text) => text.parse().ok().filter(|number: &f64| number.is_finite()),
            _ => None,
        }
    }

    /// The finite number under a key.
    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        self.get(key)?.as_number()
    }

    /// The whole number from 0 under a key.
    pub(crate) fn count(&self, key: &str) -> Option<u64> {
        match self.get(key)? {
            Self::Number(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// Whether this is an object.
    pub(crate) fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// What it is, for messages.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a truth value",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }
}

impl<'a> Json<'a> {
    /// Takes the value under a key out of the object; null is no value.
    pub(crate) fn take(&mut self, key: &str) -> Option<Json<'a>> {
        match self {
            Self::Object(entries) => entries
                .iter_mut()
                .find(|(name, _)| name == key)
                .map(|(_, value)| std::mem::replace(value, Self::Null))
                .filter(|value| !matches!(value, Self::Null)),
            _ => None,
        }
    }

    /// Takes the text under a key out of the object.
    pub(crate) fn take_text(&mut self, key: &str) -> Option<String> {
        match self.take(key)? {
            Self::Text(text) => Some(text.into_owned()),
            _ => None,
        }
    }

    /// Takes the list under a key out of the object.
    pub(crate) fn take_list(&mut self, key: &str) -> Option<Vec<Json<'a>>> {
        match self.take(key)? {
            Self::List(items) => Some(items),
            _ => None,
        }
    }
}
