package verb

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"lazaret/internal/cli"
	"lazaret/internal/query"
	"lazaret/streams"
)

// The output of an activation names each partition under its own decision, and exit code 2 means that all refused.
func TestTheOutcomeOfAnActivationNamesThePartitions(t *testing.T) {
	var all []string
	for p := range streams.Partitions {
		all = append(all, strconv.Itoa(p))
	}
	for _, c := range []struct {
		out  outcome
		code int
		says []string
	}{
		{outcome{refused: all}, cli.ExitNegative, []string{"refused: LZ401: w"}},
		{outcome{in: all[:14], refused: all[14:15], unanswered: all[15:]}, cli.ExitIncomplete,
			[]string{"and partitions 14 refused it and keep what they had: LZ401: w\n" +
				"partitions 15 did not answer (nobody answers)\n",
				"lazaret policy activate FILE"}},
		{outcome{refused: all[:14], undecided: all[14:]}, cli.ExitIncomplete,
			[]string{"refused by 14 of 16 partitions: LZ401: w\npartitions 14, 15 have not decided yet\n"}},
		{outcome{in: all[:14], undecided: all[14:15], unanswered: all[15:]}, cli.ExitIncomplete,
			[]string{"in force in 14 of 16 partitions\npartitions 15 did not answer (nobody answers)\n" +
				"partitions 14 have not decided yet\n"}},
	} {
		c.out.do, c.out.why, c.out.failed = streams.DoActivatePolicy, "LZ401: w", query.ErrNobody
		err := c.out.err()
		var exit *cli.Exit
		if !errors.As(err, &exit) || exit.Code != c.code {
			t.Errorf("exit code %d is wanted: %v", c.code, err)
			continue
		}
		for _, want := range c.says {
			if !strings.Contains(exit.Text, want) {
				t.Errorf("%q lacks %q", exit.Text, want)
			}
		}
	}
	if err := (&outcome{in: all}).err(); err != nil {
		t.Errorf("in force everywhere: %v", err)
	}
}
