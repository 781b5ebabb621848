package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

//go:generate go test -run TestTheManualIsCurrent -update .

var update = flag.Bool("update", false, "write docs/cli.md anew")

const manual = "../../docs/cli.md"

func TestTheManualIsCurrent(t *testing.T) {
	want := writeManual(newRoot())
	if *update {
		if err := os.WriteFile(manual, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s differs from the commands: run go generate ./cmd/lazaret", manual)
	}
}

// pflag takes the name of a flag's value from between two backticks in the help text. If there is only one backtick, it
// prints the backtick and finds no name.
func TestNamesOfValuesInHelpStandBetweenTwoBackticks(t *testing.T) {
	each(newRoot(), func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if n := strings.Count(f.Usage, "`"); n%2 != 0 {
				t.Errorf("%s --%s: %d backticks in %q", c.CommandPath(), f.Name, n, f.Usage)
			}
		})
	})
}

// writeManual returns the manual of a command and all its subcommands as one Markdown page.
func writeManual(root *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The lazaret command\n\n<!-- generated from the commands: go generate ./cmd/lazaret -->\n\n%s\n\n",
		root.Long)
	b.WriteString("## Commands\n\n| command | purpose |\n|---|---|\n")
	each(root, func(c *cobra.Command) {
		if c.Runnable() && !c.DisableFlagsInUseLine {
			fmt.Fprintf(&b, "| [%s](#%s) | %s |\n", c.CommandPath(), strings.ReplaceAll(c.CommandPath(), " ", "-"),
				cell(c.Short))
		}
	})
	b.WriteString("\n## Flags of every command\n\n")
	flags(&b, root.PersistentFlags())
	each(root, func(c *cobra.Command) {
		if !c.Runnable() || c.DisableFlagsInUseLine {
			return
		}
		fmt.Fprintf(&b, "\n## %s\n\n", c.CommandPath())
		if long := strings.TrimSpace(c.Long); long != "" {
			b.WriteString(plainLines(long))
		} else {
			b.WriteString(c.Short + ".\n")
		}
		fmt.Fprintf(&b, "\n    %s\n", c.UseLine())
		if c.Example != "" {
			fmt.Fprintf(&b, "\n```\n%s\n```\n", strings.Trim(c.Example, "\n"))
		}
		if c.LocalNonPersistentFlags().HasAvailableFlags() {
			b.WriteString("\n")
			flags(&b, c.LocalNonPersistentFlags())
		}
	})
	return b.String()
}

func each(c *cobra.Command, f func(*cobra.Command)) {
	for _, sub := range c.Commands() {
		if sub.Hidden || sub.Name() == "help" || sub.Name() == "completion" {
			continue
		}
		f(sub)
		each(sub, f)
	}
}

func flags(b *strings.Builder, set *pflag.FlagSet) {
	b.WriteString("| flag | meaning | default |\n|---|---|---|\n")
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name, usage := pflag.UnquoteUsage(f)
		flag := "`--" + f.Name
		if f.Shorthand != "" {
			flag = "`-" + f.Shorthand + ", --" + f.Name
		}
		if name != "" {
			flag += " " + name
		}
		value := f.DefValue
		if value == "[]" || value == "false" || value == "0s" && strings.Contains(usage, "0:") {
			value = ""
		}
		fmt.Fprintf(b, "| %s` | %s | %s |\n", flag, cell(usage), cell(value))
	})
}

// cell formats a text for a table cell.
func cell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}

// plainLines keeps Markdown from reading a help text's indented lines as prose
// and its angle brackets as HTML.
func plainLines(s string) string {
	return strings.NewReplacer("<", "&lt;", "*", `\*`).Replace(s) + "\n"
}

var shellWord = regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`)

func TestTheExamplesOfTheManualAreCommandsWithKnownFlags(t *testing.T) {
	tried := 0
	each(newRoot(), func(c *cobra.Command) {
		for line := range strings.Lines(strings.ReplaceAll(c.Example, "\\\n", " ")) {
			line, _, _ = strings.Cut(line, " #")
			words := shellWord.FindAllString(line, -1)
			if len(words) == 0 || words[0] != "lazaret" {
				continue
			}
			if i := slices.IndexFunc(words, func(w string) bool { return strings.ContainsAny(w[:1], "|&><;") }); i > 0 {
				words = words[:i]
			}
			root := newRoot()
			root.SetOut(io.Discard)
			root.SetErr(io.Discard)
			found, rest, err := root.Find(words[1:])
			if err != nil || found.HasSubCommands() && !found.Runnable() {
				t.Errorf("example of %s: %s: %v", c.CommandPath(), line, err)
				continue
			}
			if !found.DisableFlagParsing {
				if err := found.ParseFlags(rest); err != nil {
					t.Errorf("example of %s: %s: %v", c.CommandPath(), line, err)
				}
			}
			tried++
		}
	})
	if tried < 50 {
		t.Errorf("only %d examples were tried", tried)
	}
}
