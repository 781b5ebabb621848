package cli

import "lazaret/streams"

// Exit codes of all commands.
const (
	ExitOK         = 0
	ExitFailed     = 1  // could not run
	ExitNegative   = 2  // a test failed, a verification failed
	ExitIncomplete = 3  // something was not checked, or drifted
	ExitHold       = 10 // the verdict is hold
	ExitDeny       = 11 // the verdict is deny
)

// Exit ends a command with a code. Text may be empty when the command has said
// all there is to say.
type Exit struct {
	Code int
	Text string
}

func (e *Exit) Error() string { return e.Text }

// VerdictExit is how a command ends that asked for a verdict.
func VerdictExit(v streams.Verdict) error {
	switch v {
	case streams.Allow:
		return nil
	case streams.Hold:
		return &Exit{Code: ExitHold}
	}
	return &Exit{Code: ExitDeny}
}
