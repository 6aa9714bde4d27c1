//! How much two prompts say the same.
//!
//! A prompt is the set of its runs of three words. Two prompts are nearly the same when four fifths of the runs of both
//! are common, or when they are short and differ in a single word; and when the names in them agree as well, because a
//! template with the name of another function in it is another task. MinHash only finds the pairs that are worth
//! comparing; the comparison itself is exact.

/// Words in a run.
const RUN: usize = 3;
/// No more words than this are read of a prompt.
const MAX_WORDS: usize = 4096;
/// Prompts with fewer words are short: a single other word changes more than a fifth of their runs.
const SHORT: usize = 30;
/// Hash functions of a signature.
const HASHES: usize = BANDS * ROWS;
/// Groups of hash functions that have to agree for two prompts to be compared.
const BANDS: usize = 16;
/// Hash functions of a group. At a similarity of 0.8 the chance that no group agrees is below one in four thousand.
const ROWS: usize = 4;

/// What is kept of a prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Prompt {
    /// Hashes of its runs, ascending, each once.
    runs: Vec<u32>,
    /// The hashes of its words, where it is short.
    words: Vec<u64>,
    /// The hashes of the names in it, ascending, each once.
    names: Vec<u64>,
    /// The smallest value of each hash function over the runs.
    signature: Vec<u32>,
}

impl Prompt {
    /// Reads a prompt without its canary lines; case and everything but letters and digits does not count.
    pub(crate) fn of(text: &str) -> Self {
        let lines = text.lines().filter(|line| !crate::lines::is_canary(line));
        let read: Vec<(u64, bool)> = lines.flat_map(words_of).take(MAX_WORDS).collect();
        let words: Vec<u64> = read.iter().map(|(word, _)| *word).collect();
        let mut names: Vec<u64> = read.iter().filter(|(_, name)| *name).map(|(word, _)| *word).collect();
        names.sort_unstable();
        names.dedup();
        if words.is_empty() {
            return Self::default();
        }
        let mut runs: Vec<u32> = words
            .windows(RUN.min(words.len()))
            .map(|run| hash_of(run.iter().copied(), run.len()) as u32)
            .collect();
        runs.sort_unstable();
        runs.dedup();
        let signature = signature(&runs).to_vec();
        Self { runs, words: if words.len() < SHORT { words } else { Vec::new() }, names, signature }
    }

    /// Whether it says nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether a single other word would make it another prompt by its runs alone.
    pub(crate) fn is_short(&self) -> bool {
        !self.words.is_empty()
    }

    /// Keys of which two prompts that are nearly the same share at least one, all but certainly.
    pub(crate) fn keys(&self) -> Vec<u64> {
        let bands = self.signature.chunks(ROWS).enumerate().map(|(band, rows)| {
            hash_of([band as u64].into_iter().chain(rows.iter().map(|row| u64::from(*row))), 1 + rows.len())
        });
        // Short prompts that differ in one word are the same with that word struck out.
        let struck = (0..self.words.len()).map(|at| {
            let words = self.words.iter().enumerate();
            hash_of(words.map(|(place, word)| if place == at { 0 } else { *word }), self.words.len())
        });
        bands.chain(struck).collect()
    }

    /// How much both have in common, in thousandths, when that is enough to call them nearly the same.
    pub(crate) fn likeness(&self, other: &Self) -> Option<u16> {
        if self.is_empty() || other.is_empty() {
            return None;
        }
        let (common_runs, all_runs) = overlap(&self.runs, &other.runs);
        let (common_names, all_names) = overlap(&self.names, &other.names);
        let one_word = self.is_short()
            && self.words.len() == other.words.len()
            && self.words.iter().zip(&other.words).filter(|(a, b)| a != b).count() == 1;
        let alike = common_runs * 5 >= all_runs * 4 || one_word;
        (alike && common_names * 10 >= all_names * 9).then_some((common_runs * 1000 / all_runs) as u16)
    }
}

/// The smallest value of each hash function over the runs.
///
/// A run is spread over 32 bits first; each function then multiplies by an odd number and adds another, which the compiler does for
/// many functions at once.
fn signature(runs: &[u32]) -> [u32; HASHES] {
    let mut smallest = [u32::MAX; HASHES];
    for run in runs {
        let spread = (mix(u64::from(*run)) >> 32) as u32;
        for (least, (factor, summand)) in smallest.iter_mut().zip(FACTORS.iter().zip(&SUMMANDS)) {
            *least = (*least).min(spread.wrapping_mul(*factor).wrapping_add(*summand));
        }
    }
    smallest
}

const FACTORS: [u32; HASHES] = numbers(1);
const SUMMANDS: [u32; HASHES] = numbers(0);

/// Numbers that look random, odd ones where `odd` is 1.
const fn numbers(odd: u32) -> [u32; HASHES] {
    let mut numbers = [0; HASHES];
    let mut at = 0;
    while at < HASHES {
        numbers[at] = (mix(at as u64 * 2 + odd as u64 + 1) >> 32) as u32 | odd;
        at += 1;
    }
    numbers
}

/// How many values two ascending lists share, and how many there are in both together.
fn overlap<T: Ord>(a: &[T], b: &[T]) -> (usize, usize) {
    let (mut i, mut j, mut common) = (0, 0, 0);
    while let (Some(left), Some(right)) = (a.get(i), b.get(j)) {
        common += usize::from(left == right);
        (i, j) = (i + usize::from(left <= right), j + usize::from(right <= left));
    }
    (common, a.len() + b.len() - common)
}

/// The words of a line, each with whether it is a name: in backticks, or with an underscore, a digit or a capital
/// behind a small letter.
fn words_of(line: &str) -> impl Iterator<Item = (u64, bool)> {
    line.split('`').enumerate().flat_map(|(at, part)| {
        let quoted = at % 2 == 1;
        let words = part.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
        words.map(move |word| (word_hash(word), quoted || is_name(word)))
    })
}

fn is_name(word: &str) -> bool {
    if word.is_ascii() {
        let bytes = word.as_bytes();
        return bytes.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
            || bytes.iter().any(|byte| *byte == b'_' || byte.is_ascii_digit());
    }
    let inner = word.chars().zip(word.chars().skip(1)).any(|(a, b)| a.is_lowercase() && b.is_uppercase());
    inner || word.contains(|c: char| c == '_' || c.is_numeric())
}

/// The hash of a word without its case. Like all hashes here it is the same on every machine and in every version, which those of the
/// standard library do not promise.
fn word_hash(word: &str) -> u64 {
    // FNV-1a over characters in place of bytes.
    const BEGIN: u64 = 0xcbf2_9ce4_8422_2325;
    let step = |hash: u64, c: char| (hash ^ u64::from(u32::from(c))).wrapping_mul(0x0100_0000_01b3);
    let hash = if word.is_ascii() {
        word.bytes().map(|byte| char::from(byte.to_ascii_lowercase())).fold(BEGIN, step)
    } else {
        word.chars().flat_map(char::to_lowercase).fold(BEGIN, step)
    };
    // 0 stands for a word that is struck out.
    mix(hash).max(1)
}

/// The hash of so many values.
fn hash_of(values: impl Iterator<Item = u64>, count: usize) -> u64 {
    values.fold(count as u64, |hash, value| mix(hash ^ value))
}

/// The finaliser of SplitMix64: every bit of the result depends on every bit of the value.
const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A word of letters for each number.
    fn word(number: usize) -> String {
        number.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect()
    }

    fn likeness(a: &str, b: &str) -> Option<u16> {
        let (a, b) = (Prompt::of(a), Prompt::of(b));
        let found = a.likeness(&b);
        assert_eq!(found, b.likeness(&a));
        let shared = a.keys().iter().any(|key| b.keys().contains(key));
        assert!(found.is_none() || shared, "alike, and no key is shared");
        found
    }

    #[test]
    fn form_does_not_count_and_words_do() {
        assert_eq!(likeness("Repair  the sum.", "repair THE\n\nsum"), Some(1000));
        assert_eq!(likeness("<!-- canary x -->\nRepair the sum.", "Repair the sum."), Some(1000));
        assert_eq!(likeness("Repair the sum.", "Repair this sum."), Some(0));
        assert_eq!(likeness("Repair the sum.", "Repair this product."), None);
        assert_eq!(likeness("Repair the sum.", "Repair the sum at once."), None);
        assert_eq!(likeness("Repair `sum` now.", "Repair `product` now."), None);
        assert_eq!(likeness("Repair set_sum now.", "Repair setSum now."), None);
        assert_eq!(likeness("Repair `sum` now.", "Mend `sum` now."), Some(0));
        assert_eq!(likeness("", ""), None);
        assert_eq!(likeness("...", "a b c"), None);
    }

    #[test]
    fn long_prompts_may_differ_in_a_fifth() {
        let words = |changed: std::ops::Range<usize>| -> String {
            (0..100)
                .map(|n| if changed.contains(&n) { "x ".into() } else { format!("{} ", word(n)) })
                .collect()
        };
        // One other word changes three of 98 runs.
        assert_eq!(likeness(&words(0..0), &words(50..51)), Some(940));
        assert!(likeness(&words(0..0), &words(40..50)).is_none_or(|likeness| likeness >= 800));
        assert_eq!(likeness(&words(0..0), &words(20..60)), None);
    }

    proptest! {
        /// A single other word is found wherever it stands and however long the prompt is.
        #[test]
        fn one_other_word_is_always_found(length in 2usize..400, at in 0usize..400) {
            let at = at % length;
            let text = |other: bool| -> String {
                (0..length).map(|n| if other && n == at { "other ".into() } else { format!("{} ", word(n)) }).collect()
            };
            prop_assert!(likeness(&text(false), &text(true)).is_some());
        }
    }
}
