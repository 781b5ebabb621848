package cli

import (
	"errors"
	"fmt"
	"io/fs"

	"lazaret/streams"
)

// Exit codes of all commands.
const (
	ExitOK         = 0
	ExitFailed     = 1  // the command could not run
	ExitNegative   = 2  // a test or verification failed
	ExitIncomplete = 3  // something was not checked, or differs from what is expected
	ExitHold       = 10 // the verdict is hold
	ExitDeny       = 11 // the verdict is deny
)

// Exit is an error that ends a command with an exit code. Text may be empty if the command has already
// printed its result.
type Exit struct {
	Code int
	Text string
}

func (e *Exit) Error() string { return e.Text }

// Negative returns an error with the exit code ExitNegative.
func Negative(format string, args ...any) error {
	return &Exit{Code: ExitNegative, Text: fmt.Sprintf(format, args...)}
}

// Invalid returns an error about the content of a file or folder with the exit code ExitNegative, because the file was
// read and is invalid. If err says that the file is missing or cannot be read, or has an exit code already, Invalid
// returns err unchanged.
func Invalid(err error) error {
	var path *fs.PathError
	var exit *Exit
	if err == nil || errors.As(err, &path) || errors.As(err, &exit) {
		return err
	}
	return &Exit{Code: ExitNegative, Text: err.Error()}
}

// VerdictExit returns the error with the exit code of a verdict; nil for allow.
func VerdictExit(v streams.Verdict) error {
	switch v {
	case streams.Allow:
		return nil
	case streams.Hold:
		return &Exit{Code: ExitHold}
	}
	return &Exit{Code: ExitDeny}
}
