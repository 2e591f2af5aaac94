//! What the name of a column says about its role.

/// Columns that tell cases apart.
pub(super) const KEYS: [&str; 11] = [
    "id",
    "key",
    "case",
    "person",
    "applicant",
    "user",
    "customer",
    "uuid",
    "number",
    "passengerid",
    "case number",
];

/// Attributes that people are protected by.
pub(super) const PROTECTED: [&str; 16] = [
    "gender",
    "sex",
    "race",
    "ethnicity",
    "ethnic",
    "nationality",
    "religion",
    "disability",
    "minority",
    "sens",
    "protected",
    "group",
    "age group",
    "age cat",
    "age",
    "personal status",
];

/// What a system decides or predicts, the likeliest first.
pub(super) const DECISIONS: [&str; 33] = [
    "accepted",
    "admitted",
    "approved",
    "hired",
    "granted",
    "selected",
    "promoted",
    "rejected",
    "denied",
    "declined",
    "searched",
    "frisked",
    "arrested",
    "arstmade",
    "stopped",
    "decision",
    "decided",
    "y pred",
    "prediction",
    "predicted",
    "pred",
    "approval",
    "action",
    "status",
    "result",
    "score text",
    "deny",
    "high risk",
    "loan status",
    "survived",
    "risk",
    "fired",
    "card",
];

/// What came of it, or what a model is trained on.
pub(super) const OUTCOMES: [&str; 19] = [
    "outcome",
    "label",
    "y true",
    "target",
    "income",
    "salary",
    "class",
    "credit",
    "default",
    "repaid",
    "recid",
    "recidivism",
    "paid",
    "passed",
    "pf",
    "y",
    "employed",
    "churn",
    "affairs",
];

/// Numbers that a system gives.
pub(super) const SCORES: [&str; 3] = ["decile score", "score", "rating"];

/// Words of things that are bad for a person.
const BURDENS: [&str; 28] = [
    "rejected",
    "denied",
    "deny",
    "declined",
    "default",
    "recid",
    "recidivism",
    "risk",
    "arrested",
    "arrest",
    "arstmade",
    "frisked",
    "searched",
    "search",
    "stopped",
    "flagged",
    "fraud",
    "fired",
    "churn",
    "delinquent",
    "detained",
    "fined",
    "dismissed",
    "suspended",
    "layoff",
    "unpaid",
    "bad",
    "high",
];

/// Values that say yes, or that are good for a person.
const YES: [&str; 27] = [
    "true",
    "yes",
    "y",
    "t",
    "1",
    "1.0",
    "accepted",
    "accept",
    "admitted",
    "approved",
    "granted",
    "hired",
    "selected",
    "promoted",
    "pass",
    "passed",
    "good",
    "paid",
    "repaid",
    "survived",
    "employed",
    "high",
    "+",
    "positive",
    "invited",
    "fully paid",
    "recidivated",
];

/// Values that stand for none.
const MISSING: [&str; 14] = [
    "?",
    "na",
    "n/a",
    "nan",
    "null",
    "unknown",
    "not known",
    "missing",
    "-",
    "not available",
    "undefined",
    "unspecified",
    "not stated",
    "u",
];

/// Columns of events of several kinds.
pub(super) const EVENTS: [&str; 4] = ["event", "event type", "type", "kind"];

/// The words of a name in lower case: `c_charge-Degree`, `cChargeDegree` → `c charge degree`.
pub(super) fn words(name: &str) -> String {
    let mut words = String::new();
    let mut before = ' ';
    for c in name.chars() {
        if !c.is_alphanumeric() {
            words.push(' ');
        } else {
            if before.is_lowercase() && c.is_uppercase() {
                words.push(' ');
            }
            words.extend(c.to_lowercase());
        }
        before = c;
    }
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Rank of a name in a list of typical names, the lower the likelier; `None` if it is like none of them. A name that is
/// one of them comes before those that contain one.
pub(super) fn rank(name: &str, known: &[&str]) -> Option<usize> {
    let words = words(name);
    let contains = |known: &&str| format!(" {words} ").contains(&format!(" {known} "));
    let exactly = known.iter().position(|known| *known == words);
    exactly.or_else(|| known.iter().position(contains).map(|rank| rank + known.len()))
}

/// Whether it is good for a person to have what a column or value is called; `None` if the name does not tell.
pub(super) fn is_favourable(name: &str) -> Option<bool> {
    if rank(name, &BURDENS).is_some() {
        return Some(false);
    }
    const BENEFITS: [&str; 20] = [
        "accepted",
        "admitted",
        "approved",
        "approval",
        "hired",
        "granted",
        "selected",
        "promoted",
        "income",
        "repaid",
        "paid",
        "passed",
        "survived",
        "employed",
        "invited",
        "card",
        "good",
        "salary",
        "credit",
        "graduated",
    ];
    rank(name, &BENEFITS).map(|_| true)
}

/// Whether a value says yes.
pub(super) fn is_yes(value: &str) -> bool {
    let value = value.trim().to_lowercase();
    YES.contains(&value.as_str()) || value.starts_with('>')
}

/// Whether a value stands for a missing one.
pub(super) fn is_missing(value: &str) -> bool {
    let value = value.trim().to_lowercase().replace('_', " ");
    MISSING.contains(&value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_by_their_words() {
        assert_eq!(words("default-payment-next-month"), "default payment next month");
        assert_eq!(words("PassengerId"), "passenger id");
        assert_eq!(words("two.year?"), "two year");
        assert_eq!(rank("sex", &PROTECTED), Some(1));
        assert!(rank("applicant_sex", &PROTECTED) > rank("religion", &PROTECTED));
        assert_eq!(rank("passage", &PROTECTED), None);
        assert_eq!(is_favourable("default-payment-next-month"), Some(false));
        assert_eq!(is_favourable("hired"), Some(true));
        assert_eq!(is_favourable("x"), None);
        assert!(is_yes(">50K") && is_yes(" Yes") && !is_yes("<=50K"));
        assert!(is_missing("not_known") && !is_missing("none"));
    }
}
