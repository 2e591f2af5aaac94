//! Suggestions for "did you mean": the known name closest to a misspelled one.

/// The candidate most similar to `name`, if one is similar enough.
///
/// ```
/// assert_eq!(fairstream_core::nearest("gendr", ["id", "gender"]), Some("gender"));
/// assert_eq!(fairstream_core::nearest("salary", ["id", "gender"]), None);
/// ```
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let likeness = |candidate: &str| {
        let candidate = candidate.to_lowercase();
        // A single letter is contained in too many names.
        let is_word = name.chars().nth(1).is_some() && candidate.chars().nth(1).is_some();
        if is_word && (candidate.contains(&name) || name.contains(&candidate)) {
            return 0.8_f64.max(strsim::jaro_winkler(&name, &candidate));
        }
        strsim::normalized_damerau_levenshtein(&name, &candidate)
    };
    candidates
        .into_iter()
        .map(|candidate| (likeness(candidate), candidate))
        .filter(|(likeness, _)| *likeness >= 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}
