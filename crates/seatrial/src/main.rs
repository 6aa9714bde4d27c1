//! The command line of Seatrial: arguments, progress, tables, exit codes. It decides nothing that the rooms below decide.

mod cli;
mod command;
mod failure;
mod hub;
mod interruption;
mod model;
mod output;
mod profiles;
mod progress;
mod project;
mod proof;
mod sources;
mod stage;
mod transfers;
mod trees;
mod verifier;
mod workbench;

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use cli::{Cli, Command, PlanCommand};
use failure::{Exit, Failure, Result};
use output::Output;
use project::Project;

/// The variable that holds a filter of log messages where --log is not given.
const RUST_LOG: &str = "RUST_LOG";

fn main() -> ExitCode {
    // The sandbox's init is this program again, and must do nothing else first.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == sandbox::native::INIT_ARGUMENT) {
        sandbox::native::init_main();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                _ => {
                    // The arguments could not be read, so this one is looked for by hand.
                    let json = std::env::args_os().any(|argument| argument == "--json");
                    let output = Output { json, quiet: false };
                    output.json_error(&Failure::new(Exit::Usage, complaint(&error)));
                    Exit::Usage.into()
                }
            };
        }
    };
    let output = Output { json: cli.json, quiet: cli.quiet };
    if let Err(failure) = start_logging(output, cli.log.as_deref()) {
        output.error(&failure);
        return failure.exit.into();
    }
    if let Err(error) = interruption::listen(output) {
        output.warn(format_args!("interruptions will not be noticed: {error}"));
    }
    match run(cli, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.error(&failure);
            failure.exit.into()
        }
    }
}

fn run(cli: Cli, output: Output) -> Result {
    let directory = cli.directory.as_deref().unwrap_or(Path::new("."));
    let project = || Project::open(directory);
    // Commands that write to a project have it for themselves.
    let claimed = || {
        let project = Project::open(directory)?;
        let claim = project.claim()?;
        Ok::<_, Failure>((project, claim))
    };
    match cli.command {
        Command::Init(arguments) => {
            command::init::run(output, &command::run::named(directory, &arguments.path))
        }
        Command::Doctor => command::doctor::run(output),
        Command::Up(jobs) => stage::up::run(output, &claimed()?.0, &jobs),
        Command::Source(cli::Source::Pull(arguments)) => {
            stage::source::run(output, &claimed()?.0, &arguments)
        }
        Command::Plan(arguments) => match arguments.command {
            None => stage::plan::run(output, &claimed()?.0),
            Some(PlanCommand::Explain(arguments)) => {
                stage::explain::run(output, &project()?, &arguments.task)
            }
            Some(PlanCommand::Diff(arguments)) => command::plan_diff::run(output, directory, &arguments),
        },
        Command::Materialize => stage::materialize::run(output, &claimed()?.0),
        Command::Check(arguments) => command::check::run(output, directory, &arguments),
        Command::Prove(arguments) if arguments.paths.is_empty() => {
            stage::prove::run(output, &claimed()?.0, &arguments)
        }
        Command::Prove(arguments) => command::prove::run(output, directory, &arguments),
        Command::Images(cli::Images::Tags) => stage::images::tags(output, &project()?),
        Command::Images(cli::Images::Build(arguments)) => {
            stage::images::build(output, &claimed()?.0, &arguments.jobs)
        }
        Command::Images(cli::Images::Rewrite) => stage::images::rewrite(output, &claimed()?.0),
        Command::Images(cli::Images::Plan(arguments)) => {
            stage::images::plan(output, &claimed()?.0, arguments.rehome)
        }
        // Neither claims the project: they take long, and keep to files of their own.
        Command::Images(cli::Images::Mirror(arguments)) => {
            stage::images::mirror(output, &project()?, &arguments)
        }
        Command::Images(cli::Images::Verify(arguments)) => {
            stage::images::verify(output, &project()?, &arguments)
        }
        Command::Images(cli::Images::Diff(arguments)) => {
            command::images_diff::run(output, directory, &arguments)
        }
        Command::Status(arguments) => stage::status::run(output, &project()?, arguments.task.as_deref()),
        Command::Resolve(cli::Resolve { command: None }) => stage::resolve::run(output, &claimed()?.0),
        Command::Resolve(cli::Resolve { command: Some(cli::ResolveCommand::Explain(arguments)) }) => {
            stage::resolve::explain(output, &project()?, &arguments.task)
        }
        Command::Freeze(arguments) => stage::freeze::run(output, directory, &arguments),
        Command::Canary(arguments) => command::canary::run(output, directory, &arguments),
        Command::Export(arguments) => stage::export::run(output, &claimed()?.0, &arguments),
        Command::Register(arguments) => command::register::run(output, directory, &arguments),
        Command::Datasets(arguments) => command::datasets::run(output, directory, &arguments),
        Command::Run(arguments) => command::run::run(output, directory, &arguments),
        Command::Jobs(arguments) => command::jobs::run(output, directory, &arguments),
        Command::Traces(arguments) => command::traces::run(output, directory, &arguments),
        Command::Gc(arguments) => command::gc::run(output, directory, &arguments),
        Command::Digest(arguments) => command::digest::run(output, directory, &arguments.paths),
        Command::Grade(arguments) => command::grade::run(output, directory, &arguments),
        Command::Completions(arguments) => command::manual::completions(arguments.shell),
        Command::Man => command::manual::man(),
    }
}

/// What is wrong with the arguments, without the tips and the usage that follow.
fn complaint(error: &clap::Error) -> String {
    let text = error.to_string();
    let complaint = text.split("\n\n").next().unwrap_or_default();
    complaint.strip_prefix("error: ").unwrap_or(complaint).trim_end().to_owned()
}

/// Begins to write log messages where a filter is given. One that cannot be read is an error on the command line, and a warning in
/// the environment, which other programs share.
fn start_logging(output: Output, filter: Option<&str>) -> Result {
    let environment = std::env::var(RUST_LOG).ok().filter(|filter| !filter.trim().is_empty());
    let Some(text) = filter.map(str::to_owned).or(environment) else { return Ok(()) };
    let read = match tracing_subscriber::EnvFilter::try_new(&text) {
        Ok(read) => read,
        Err(error) if filter.is_some() => {
            return Err(Failure::new(Exit::Usage, format_args!("--log `{text}` is no filter: {error}"))
                .hint("a level (error, warn, info, debug, trace), or targets such as sandbox=debug,source=trace"));
        }
        Err(error) => {
            output.warn(format_args!("{RUST_LOG} `{text}` is no filter and has no effect: {error}"));
            return Ok(());
        }
    };
    let colours =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    let logging = tracing_subscriber::fmt().with_env_filter(read).with_ansi(colours);
    logging.with_writer(std::io::stderr).init();
    Ok(())
}
