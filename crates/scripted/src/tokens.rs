//! Tokens: a made-up vocabulary in which equal texts have equal numbers, and a made-up chat format.
//!
//! The prompt of a turn begins with the prompt of the turn before and what was said there, as trainers expect of real servers.

/// The mark at the beginning of a message.
pub(crate) const BEGIN: u32 = 150_000;
/// The mark at its end.
pub(crate) const END: u32 = 150_001;
/// Numbers of other tokens are below.
const WORDS: u32 = 150_000;
/// Characters of a token at most.
const LONGEST: usize = 4;

/// One token of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenText {
    /// Its number.
    pub id: u32,
    /// Its text.
    pub text: String,
}

impl TokenText {
    /// Its log probability: always the same, never above 0, and exact in a float of 32 bits.
    pub(crate) fn logprob(&self) -> f64 {
        -f64::from(self.id % 64) / 64.0
    }

    pub(crate) fn end() -> Self {
        Self { id: END, text: "<|end|>".into() }
    }
}

/// The tokens of a text: pieces of at most four characters.
pub fn tokens(text: &str) -> Vec<TokenText> {
    let mut found = Vec::with_capacity(text.len() / LONGEST + 1);
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.char_indices().nth(LONGEST).map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(end);
        found.push(TokenText { id: number(piece), text: piece.to_owned() });
        rest = after;
    }
    found
}

fn number(piece: &str) -> u32 {
    // FNV-1a: a prompt has many pieces, and the server is not to be what a measurement shows.
    piece.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)) % WORDS
}

/// The numbers of a whole message, from mark to mark.
pub(crate) fn message(role: &str, text: &str, into: &mut Vec<u32>) {
    begin(role, into);
    into.extend(tokens(text).into_iter().map(|token| token.id));
    into.push(END);
}

/// The beginning of a message.
pub(crate) fn begin(role: &str, into: &mut Vec<u32>) {
    into.push(BEGIN);
    into.push(number(role));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_sum_of_their_tokens() {
        for text in ["", "abc", "abcdefgh", "grüße, 世界!\n"] {
            let whole: String = tokens(text).into_iter().map(|token| token.text).collect();
            assert_eq!(whole, text);
        }
        assert_eq!(tokens("abcdabcd")[0], tokens("abcdabcd")[1]);
        assert!(tokens("abcdefgh").iter().all(|token| token.id < WORDS && token.logprob() <= 0.0));
    }
}
