fn main() -> std::process::ExitCode {
    lapse::cli::main()
}
