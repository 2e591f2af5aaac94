//! Floats and maps as formats have them that know neither infinities nor keys of several numbers, such as JSON: an infinity
//! is the text `inf` or `-inf`, and a map is a list of its keys and values. For `#[serde(with = "…")]`.

use std::collections::BTreeMap;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value that is written in another form.
pub trait Written: Sized {
    /// That form.
    type Form: Serialize + DeserializeOwned;

    /// The value in that form.
    fn to_form(&self) -> Self::Form;

    /// The value of a form; `None` if there is none.
    fn from_form(form: Self::Form) -> Option<Self>;
}

/// Serialises a value in its written form.
///
/// # Errors
/// The serialiser fails.
pub fn serialize<T: Written, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    value.to_form().serialize(serializer)
}

/// Deserialises a value from its written form.
///
/// # Errors
/// The deserialiser fails, or the form stands for no value.
pub fn deserialize<'de, T: Written, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let form = T::Form::deserialize(deserializer)?;
    T::from_form(form).ok_or_else(|| D::Error::custom("not a number, and no infinity"))
}

/// A float that formats may have no number for.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub enum FloatForm {
    /// It is finite.
    Finite(f64),
    /// It is not.
    Text(String),
}

impl Written for f64 {
    type Form = FloatForm;

    fn to_form(&self) -> FloatForm {
        if self.is_finite() { FloatForm::Finite(*self) } else { FloatForm::Text(self.to_string()) }
    }

    fn from_form(form: FloatForm) -> Option<f64> {
        match form {
            FloatForm::Finite(value) => Some(value),
            FloatForm::Text(text) => match text.as_str() {
                "inf" => Some(f64::INFINITY),
                "-inf" => Some(f64::NEG_INFINITY),
                "NaN" => Some(f64::NAN),
                _ => None,
            },
        }
    }
}

impl<T: Written> Written for Option<T> {
    type Form = Option<T::Form>;

    fn to_form(&self) -> Self::Form {
        self.as_ref().map(T::to_form)
    }

    fn from_form(form: Self::Form) -> Option<Option<T>> {
        match form {
            Some(form) => T::from_form(form).map(Some),
            None => Some(None),
        }
    }
}

impl<T: Written> Written for Vec<T> {
    type Form = Vec<T::Form>;

    fn to_form(&self) -> Self::Form {
        self.iter().map(T::to_form).collect()
    }

    fn from_form(form: Self::Form) -> Option<Vec<T>> {
        form.into_iter().map(T::from_form).collect()
    }
}

impl<T: Written, const N: usize> Written for [T; N] {
    type Form = Vec<T::Form>;

    fn to_form(&self) -> Self::Form {
        self.iter().map(T::to_form).collect()
    }

    fn from_form(form: Self::Form) -> Option<[T; N]> {
        let values: Vec<T> = Vec::from_form(form)?;
        values.try_into().ok()
    }
}

impl<T: Written> Written for BTreeMap<(usize, usize), T> {
    type Form = Vec<(usize, usize, T::Form)>;

    fn to_form(&self) -> Self::Form {
        self.iter().map(|((one, other), value)| (*one, *other, value.to_form())).collect()
    }

    fn from_form(form: Self::Form) -> Option<Self> {
        let entry = |(one, other, value)| Some(((one, other), T::from_form(value)?));
        form.into_iter().map(entry).collect()
    }
}
