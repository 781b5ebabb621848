package verb

import (
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
)

// Sensitivity is a flag for the highest sensitivity of output.
type Sensitivity struct{ beliefs.Sensitivity }

// Bind adds --ceiling.
func (s *Sensitivity) Bind(fs *pflag.FlagSet) {
	fs.Var(s, "ceiling", "the highest `SENSITIVITY` of the output: public, internal, confidential or secret")
}

// Set implements pflag.Value.
func (s *Sensitivity) Set(v string) error { return s.UnmarshalText([]byte(v)) }

// Type implements pflag.Value.
func (s *Sensitivity) Type() string { return "sensitivity" }

// Arg returns the first argument of a command, or "" if there is none.
func Arg(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// Log returns a log of warnings on standard error, which also has progress if verbose is set.
func Log(verbose bool) *slog.Logger {
	level := slog.LevelWarn
	if verbose {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

// Quote quotes untrusted text for a message, cut to n characters.
func Quote(s string, n int) string { return `"` + text.InertLine(s, n) + `"` }

var (
	unknownFlag = regexp.MustCompile(`^unknown flag: --(.+)`)
	badValue    = regexp.MustCompile(`^invalid argument ("(?s:.*)") for "(?:-., )?--([^"]+)" flag: `)
)

// wanted describes the values of each flag type.
var wanted = map[string]string{
	"uint64": "a whole number such as 42", "int": "a whole number such as 42", "int64": "a whole number such as 42",
	"uint": "a whole number such as 42", "float64": "a number such as 0.5",
	"duration": "a duration such as 90s or 24h", "bool": "true or false",
}

// flagError adds a hint to an error: the closest existing flag for an unknown one, or the format of a
// value.
func flagError(c *cobra.Command, err error) error {
	if m := unknownFlag.FindStringSubmatch(err.Error()); m != nil {
		// cobra suggests only commands, so represent the flags as commands.
		names := &cobra.Command{SuggestionsMinimumDistance: 2}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
			}
		})
		if like := names.SuggestionsFor(m[1]); len(like) > 0 {
			return fmt.Errorf("%w; did you mean --%s?", err, strings.Join(like, " or --"))
		}
		return fmt.Errorf("%w; `%s --help` lists the flags", err, c.CommandPath())
	}
	if m := badValue.FindStringSubmatch(err.Error()); m != nil {
		if f := c.Flags().Lookup(m[2]); f != nil && wanted[f.Value.Type()] != "" {
			return fmt.Errorf("--%s is %s, want %s", f.Name, m[1], wanted[f.Value.Type()])
		}
	}
	return err
}

// explainArgs makes every command below c print its usage line if its arguments are invalid.
func explainArgs(c *cobra.Command) {
	for _, sub := range c.Commands() {
		explainArgs(sub)
	}
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return fmt.Errorf("%w; it is called as: %s; see `%s --help`", err, c.UseLine(), c.CommandPath())
			}
			return nil
		}
	}
}

// version returns the module's version, or the commit of the build.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return info.Main.Version + " " + s.Value
		}
	}
	return info.Main.Version
}
