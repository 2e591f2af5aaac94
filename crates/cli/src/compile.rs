//! `fairstream compile`: prints the RTLola specification of a fairness file.

use anyhow::bail;
use fairstream_fairness::FairnessFile;

use crate::args::CompileArguments;
use crate::registry::Address;
use crate::{ExitStatus, load, median, print_file, sample};

pub(crate) fn compile(arguments: &CompileArguments) -> anyhow::Result<ExitStatus> {
    let path = &arguments.file;
    if !load::is_fairness_file(path) {
        bail!("{}: a fairness file ends in .toml; RTLola needs no compiling", path.display());
    }
    let mut file = FairnessFile::parse(&path.to_string_lossy(), &load::text(path)?)?;
    let inputs: Vec<Address> = arguments.inputs.iter().map(|input| Address::parse(input)).collect();
    median::set(&mut file, &inputs)?;
    let known = sample::columns(&inputs, file.time(), file.time_format())?;
    let (compiled, _) = load::compile(&file, &known)?;
    print_file(compiled.rtlola())
}
