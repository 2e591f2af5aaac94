//! A specification under construction: its text so far, and what later streams need to know about earlier ones.

use super::pacing::Pacing;
use super::random::Random;
use super::types::Ty;

#[derive(Clone, Debug)]
pub(super) struct Input {
    pub(super) name: String,
    pub(super) ty: Ty,
    /// Possible values, in the notation of CSV.
    pub(super) domain: Vec<String>,
}

/// What later streams need to know about an output.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) name: String,
    pub(super) ty: Ty,
    pub(super) params: Vec<Ty>,
    pub(super) pacing: Pacing,
    /// Its spawn and close clauses, if any: a stream with the same clauses may read it synchronously.
    pub(super) life: Option<Life>,
    /// The condition of its values besides pacing: a stream with the same condition may read it synchronously.
    pub(super) filter: Option<String>,
}

/// Spawn and close clauses. Parameters have the names of [`PARAMS`].
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Life {
    pub(super) params: Vec<Ty>,
    pub(super) spawn: String,
    pub(super) close: Option<String>,
}

/// Names of parameters, in order.
pub(super) const PARAMS: [&str; 3] = ["p", "q", "r"];

#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub(super) inputs: Vec<Input>,
    pub(super) streams: Vec<Stream>,
    /// Text of outputs and triggers.
    pub(super) declarations: Vec<String>,
}

impl Draft {
    pub(super) fn input(&mut self, name: &str, ty: Ty, domain: Vec<String>) -> usize {
        self.inputs.push(Input { name: name.to_owned(), ty, domain });
        self.inputs.len() - 1
    }

    pub(super) fn input_names(&self) -> Vec<String> {
        self.inputs.iter().map(|input| input.name.clone()).collect()
    }

    /// Adds an output together with its text.
    pub(super) fn output(&mut self, stream: Stream, text: String) {
        self.streams.push(stream);
        self.declarations.push(text);
    }

    pub(super) fn text(&self) -> String {
        let inputs = self.inputs.iter().map(|input| format!("input {} : {}\n", input.name, input.ty.name()));
        let declarations = self.declarations.iter().map(|text| format!("{text}\n"));
        let imports = "import math\nimport regex\n".to_owned();
        std::iter::once(imports).chain(inputs).chain(declarations).collect()
    }

    /// A random activation: one input, several, or alternatives.
    pub(super) fn activation(&self, random: &mut Random) -> Pacing {
        let alternatives = [1, 1, 1, 1, 2, 2, 3][random.below(7)];
        let mut activation: Vec<Vec<usize>> = Vec::new();
        for _ in 0..alternatives {
            let mut together = vec![random.below(self.inputs.len())];
            while random.chance(35) && together.len() < 3 {
                let input = random.below(self.inputs.len());
                if !together.contains(&input) {
                    together.push(input);
                }
            }
            together.sort_unstable();
            if !activation.contains(&together) {
                activation.push(together);
            }
        }
        Pacing::Event(activation)
    }
}

impl Stream {
    /// `name(p, q)`, or the name alone.
    pub(super) fn with_args(&self, args: &[String]) -> String {
        if args.is_empty() { self.name.clone() } else { format!("{}({})", self.name, args.join(", ")) }
    }
}

/// The names of the first parameters, as many as there are types.
pub(super) fn param_names(params: &[Ty]) -> Vec<String> {
    PARAMS[..params.len()].iter().map(|name| (*name).to_owned()).collect()
}
