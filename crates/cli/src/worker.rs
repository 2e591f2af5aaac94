//! The process of an isolated plugin, which `fairstream` starts for itself.

use crate::ExitStatus;

/// Serves one plugin on standard input and output.
#[cfg(unix)]
pub(crate) fn serve() -> anyhow::Result<ExitStatus> {
    // Nothing of the plugin can delay an abort, as it could an exit.
    fairstream_plugin::serve(|| std::process::abort())?;
    Ok(ExitStatus::NothingViolated)
}

#[cfg(not(unix))]
pub(crate) fn serve() -> anyhow::Result<ExitStatus> {
    anyhow::bail!("plugins have processes of their own on Unix alone")
}
