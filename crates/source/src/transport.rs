//! What the two clients of servers, of public repositories and of package indexes, say of a failed request.

/// An error and its causes in one line. Addresses are left out: they may hold passwords, and
/// those of redirects carry signatures.
pub(crate) fn chain(error: &reqwest::Error) -> String {
    let mut text = match error {
        error if error.is_timeout() => "it took too long".to_owned(),
        error if error.is_connect() => "no connection".to_owned(),
        error if error.is_body() || error.is_decode() => "the answer broke off".to_owned(),
        _ => "the request failed".to_owned(),
    };
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let said = inner.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = inner.source();
    }
    text
}
