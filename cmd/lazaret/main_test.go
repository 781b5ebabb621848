package main

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A script with a mistyped command must not continue as if the command had run.
func TestNoCommandTakesAWordThatItDoesNotKnow(t *testing.T) {
	tried := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Name() == "completion" || c.Name() == "help" || !c.HasSubCommands() {
			return
		}
		root := newRoot()
		root.SetArgs(append(strings.Fields(c.CommandPath())[1:], "no-such-word"))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		if err := root.Execute(); err == nil || !strings.Contains(err.Error(), "no-such-word") {
			t.Errorf("%s no-such-word: %v", c.CommandPath(), err)
		}
		tried++
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
	if tried < 20 {
		t.Errorf("%d commands with subcommands", tried)
	}
}
