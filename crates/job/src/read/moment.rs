//! Times as they are found in results.
//!
//! | form | reading |
//! |---|---|
//! | `2026-09-01T10:00:00Z`, `…+08:00`, `…+0800` | that instant |
//! | `2026-09-01T10:00:00`, without a zone | UTC, and the moment says that this was assumed |
//! | a space instead of `T`; up to nine digits of a second | the same |
//! | a number from 10^8 up to 10^11 | seconds since 1970 |
//! | a number from 10^11 up to 10^14 | milliseconds since 1970 |
//! | anything else | refused by name |
//!
//! Harbor writes the times of trials in UTC and those of jobs in local time without a zone; which zone that was is not
//! written anywhere.

use std::fmt;

use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};
use serde::{Serialize, Serializer};

/// An instant, and whether its zone was written.
///
/// Moments are ordered by instant. As text they have six or nine fractional digits, none when there is no fraction, and
/// end with `Z` when the zone was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment {
    /// The instant.
    pub at: Timestamp,
    /// Whether UTC was assumed because no zone was written.
    pub assumed_utc: bool,
}

/// Why a time is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// No form that is known.
    #[error("not a time in a known form")]
    Form,
    /// A day without a time of day.
    #[error("a day without a time of day")]
    NoTimeOfDay,
    /// A day or a time of day that does not exist.
    #[error("there is no such day or time")]
    NoSuchTime,
    /// More digits of a second than nine.
    #[error("more than nine digits of a second")]
    TooFine,
    /// A number that may be seconds, milliseconds or something else.
    #[error("neither seconds nor milliseconds since 1970")]
    Magnitude,
}

impl Moment {
    /// Reads a text by the rules of this module.
    pub fn parse(text: &str) -> Result<Self, TimeError> {
        let bytes = text.as_bytes();
        if !shaped(bytes, b"dddd-dd-dd") {
            return Err(TimeError::Form);
        }
        if bytes.len() == 10 {
            return Err(TimeError::NoTimeOfDay);
        }
        if !(matches!(bytes[10], b'T' | b't' | b' ') && shaped(&bytes[11..], b"dd:dd:dd")) {
            return Err(TimeError::Form);
        }
        let (nanoseconds, rest) = fraction(&bytes[19..])?;
        let offset = offset(rest)?;
        let civil = DateTime::new(
            digits(&bytes[0..4]) as i16,
            digits(&bytes[5..7]) as i8,
            digits(&bytes[8..10]) as i8,
            digits(&bytes[11..13]) as i8,
            digits(&bytes[14..16]) as i8,
            digits(&bytes[17..19]) as i8,
            nanoseconds,
        );
        let at = civil
            .and_then(|civil| offset.unwrap_or(Offset::UTC).to_timestamp(civil))
            .map_err(|_| TimeError::NoSuchTime)?;
        Ok(Self { at, assumed_utc: offset.is_none() })
    }

    /// Reads a number by the rules of this module.
    pub fn from_number(number: f64) -> Result<Self, TimeError> {
        let duration = if (1e8..1e11).contains(&number) {
            SignedDuration::try_from_secs_f64(number)
        } else if (1e11..1e14).contains(&number) {
            SignedDuration::try_from_secs_f64(number / 1000.0)
        } else {
            return Err(TimeError::Magnitude);
        };
        // A float holds a microsecond of today and no nanosecond.
        let duration = duration.map_err(|_| TimeError::Magnitude)?;
        let at =
            Timestamp::from_microsecond(duration.as_micros() as i64).map_err(|_| TimeError::Magnitude)?;
        Ok(Self { at, assumed_utc: false })
    }

    /// The time from `earlier` to this moment in milliseconds; `None` when this one is earlier.
    pub fn milliseconds_since(self, earlier: Self) -> Option<u64> {
        u64::try_from(self.at.duration_since(earlier.at).as_millis()).ok().filter(|_| self.at >= earlier.at)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fraction = match self.at.subsec_nanosecond() {
            0 => "",
            nanoseconds if nanoseconds % 1000 == 0 => ".%6f",
            _ => ".%9f",
        };
        write!(f, "{}", self.at.strftime(&format!("%Y-%m-%dT%H:%M:%S{fraction}")))?;
        if self.assumed_utc { Ok(()) } else { f.write_str("Z") }
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Whether `bytes` begins with the shape, where `d` stands for any digit.
fn shaped(bytes: &[u8], shape: &[u8]) -> bool {
    let fits =
        |(byte, wanted): (&u8, &u8)| if *wanted == b'd' { byte.is_ascii_digit() } else { byte == wanted };
    bytes.len() >= shape.len() && bytes.iter().zip(shape).all(fits)
}

fn digits(bytes: &[u8]) -> i32 {
    bytes.iter().fold(0, |number, digit| number * 10 + i32::from(digit - b'0'))
}

/// The nanoseconds of `.123456` and what follows.
fn fraction(bytes: &[u8]) -> Result<(i32, &[u8]), TimeError> {
    let Some(rest) = bytes.strip_prefix(b".") else { return Ok((0, bytes)) };
    let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match count {
        0 => Err(TimeError::Form),
        1..=9 => Ok((digits(&rest[..count]) * 10_i32.pow(9 - count as u32), &rest[count..])),
        _ => Err(TimeError::TooFine),
    }
}

/// The offset that a time ends with; `None` when it ends without.
fn offset(bytes: &[u8]) -> Result<Option<Offset>, TimeError> {
    let (sign, rest) = match bytes {
        [] => return Ok(None),
        [b'Z' | b'z'] => return Ok(Some(Offset::UTC)),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return Err(TimeError::Form),
    };
    let (hours, minutes) = match rest.len() {
        5 if shaped(rest, b"dd:dd") => (digits(&rest[..2]), digits(&rest[3..])),
        4 if shaped(rest, b"dddd") => (digits(&rest[..2]), digits(&rest[2..])),
        _ => return Err(TimeError::Form),
    };
    if minutes > 59 {
        return Err(TimeError::NoSuchTime);
    }
    Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).map(Some).map_err(|_| TimeError::NoSuchTime)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> String {
        Moment::parse(text).unwrap().to_string()
    }

    #[test]
    fn every_known_form() {
        assert_eq!(text("2026-09-01T10:00:00Z"), "2026-09-01T10:00:00Z");
        assert_eq!(text("2026-09-01T18:00:00+08:00"), "2026-09-01T10:00:00Z");
        assert_eq!(text("2026-09-01t04:30:00.5-0530"), "2026-09-01T10:00:00.500000Z");
        assert_eq!(text("2026-09-01 10:00:00.123456"), "2026-09-01T10:00:00.123456");
        assert_eq!(text("2026-09-01T10:00:00.123456789Z"), "2026-09-01T10:00:00.123456789Z");
        assert!(Moment::parse("2026-09-01T10:00:00").unwrap().assumed_utc);
        let seconds = Moment::from_number(1_788_256_800.0).unwrap();
        assert_eq!(seconds.to_string(), "2026-09-01T10:00:00Z");
        assert_eq!(Moment::from_number(1_788_256_800_000.0), Ok(seconds));
        assert_eq!(Moment::from_number(1_788_256_800.25).unwrap().to_string(), "2026-09-01T10:00:00.250000Z");
    }

    #[test]
    fn everything_else_is_refused_by_name() {
        for (text, why) in [
            ("09/01/26", TimeError::Form),
            ("", TimeError::Form),
            ("1788256800", TimeError::Form),
            ("2026-09-01", TimeError::NoTimeOfDay),
            ("2026-09-01T10:00", TimeError::Form),
            ("2026-09-01T10:00:00.", TimeError::Form),
            ("2026-09-01T10:00:00.1234567890Z", TimeError::TooFine),
            ("2026-09-01T10:00:00 UTC", TimeError::Form),
            ("2026-09-01T10:00:00+08", TimeError::Form),
            ("2026-09-01T10:00:00+08:75", TimeError::NoSuchTime),
            ("2026-09-01T10:00:00+99:00", TimeError::NoSuchTime),
            ("2026-02-30T10:00:00Z", TimeError::NoSuchTime),
            ("2026-09-01T25:00:00Z", TimeError::NoSuchTime),
            ("2026-09-01T10:00:0٣Z", TimeError::Form),
        ] {
            assert_eq!(Moment::parse(text), Err(why), "{text}");
        }
        for number in [0.0, -1.0, 26.0, 2026.0, 1e14, 1e18, f64::NAN, f64::INFINITY] {
            assert_eq!(Moment::from_number(number), Err(TimeError::Magnitude), "{number}");
        }
    }

    #[test]
    fn moments_are_sorted_by_instant() {
        let early = Moment::parse("2026-09-01T18:00:00+08:00").unwrap();
        let late = Moment::parse("2026-09-01T10:00:01").unwrap();
        assert!(early < late);
        assert_eq!(late.milliseconds_since(early), Some(1000));
        assert_eq!(early.milliseconds_since(late), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = Moment::parse(&text);
        }

        #[test]
        fn what_is_written_is_read(microseconds in -60_000_000_000_000_000_i64..250_000_000_000_000_000) {
            let at = Timestamp::from_microsecond(microseconds).unwrap();
            let moment = Moment { at, assumed_utc: false };
            prop_assert_eq!(Moment::parse(&moment.to_string()), Ok(moment));
            prop_assert_eq!(Moment::parse(&crate::utc(at)), Ok(moment));
        }
    }
}
