//! Challenges of registries: what a `WWW-Authenticate` header asks for.

/// What a registry wants to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    /// User name and password with every request.
    Basic,
    /// A token from another address.
    Bearer {
        /// Where tokens are given out.
        realm: String,
        /// For whom the token is meant.
        service: Option<String>,
    },
}

/// Parses the value of a header; of several challenges a token is preferred.
pub(super) fn challenge(header: &str) -> Option<Challenge> {
    let header = header.get(..4096).unwrap_or(header);
    let lower = header.to_ascii_lowercase();
    if let Some(at) = lower.find("bearer ") {
        let parameters = parameters(&header[at + "bearer ".len()..]);
        let get = |name: &str| parameters.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
        return Some(Challenge::Bearer { realm: get("realm")?, service: get("service") });
    }
    lower.contains("basic").then_some(Challenge::Basic)
}

/// `name="value",name=value`
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', ',', '\t']);
        let Some((name, after)) = rest.split_once('=') else { return found };
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => {
                let mut value = String::new();
                let mut end = quoted.len();
                let mut chars = quoted.char_indices();
                while let Some((at, c)) = chars.next() {
                    match c {
                        '"' => {
                            end = at + 1;
                            break;
                        }
                        '\\' => value.extend(chars.next().map(|(_, c)| c)),
                        c => value.push(c),
                    }
                }
                (value, &quoted[end..])
            }
            None => {
                let end = after.find([',', ' ']).unwrap_or(after.len());
                (after[..end].to_owned(), &after[end..])
            }
        };
        found.push((name.trim().to_ascii_lowercase(), value));
        rest = next;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn challenges_are_read() {
        assert_eq!(
            challenge(
                "Bearer realm=\"https://auth.invalid/token?a=1,2\",service=\"s\",scope=\"repository:a/b:pull\""
            ),
            Some(Challenge::Bearer {
                realm: "https://auth.invalid/token?a=1,2".into(),
                service: Some("s".into())
            })
        );
        assert_eq!(challenge("Basic realm=\"x\""), Some(Challenge::Basic));
        assert_eq!(
            challenge("basic realm=x, bearer realm=y"),
            Some(Challenge::Bearer { realm: "y".into(), service: None })
        );
        assert_eq!(challenge("Negotiate"), None);
        assert_eq!(challenge("Bearer nothing"), None);
    }

    proptest! {
        #[test]
        fn any_header_is_survived(header in "\\PC{0,100}") {
            let _ = challenge(&header);
            let _ = challenge(&format!("Bearer {header}"));
        }
    }
}
