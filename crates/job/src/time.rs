//! Time stamps in Harbor's two forms.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A trial's time: UTC with `Z` and six fractional digits.
pub fn utc(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// A job's time: local time without zone and with six fractional digits.
pub fn local(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned_datetime(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S.%6f").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms() {
        let at = Timestamp::new(1_700_000_000, 123_456_789).unwrap();
        assert_eq!(utc(at), "2023-11-14T22:13:20.123456Z");
        assert_eq!(local(at, &TimeZone::fixed(jiff::tz::offset(8))), "2023-11-15T06:13:20.123456");
    }
}
