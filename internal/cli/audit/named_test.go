package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"lazaret/internal/cli/verb"
	"lazaret/internal/datafolder"
	"lazaret/internal/natsconn"
	"lazaret/pkg/chain"
	"lazaret/pkg/position"
)

// A month or day is sealed only after it has ended. If none has ended, the command must say so.
func TestSealSaysWhyThereIsNothingToSeal(t *testing.T) {
	data, signer, master := rotatable(t)
	l, err := chain.Open(datafolder.AuditDir(data), chain.Options{Signer: signer, Origin: "log", MasterKey: master})
	if err != nil {
		t.Fatal(err)
	}
	err = l.Append([]chain.Entry{{Seq: 1, Time: time.Now(), Type: "observation", Project: "acme", Payload: []byte("x")}})
	if err == nil {
		_, err = l.Checkpoint()
	}
	if err = errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{{nil, "no month has ended (UTC)"},
		{[]string{"--by", "day", "--older", "48h"}, "no day has ended at least 48h0m0s ago"}, {[]string{"--json"}, "[]"}} {
		if out, err := run(data, sealCommand, c.args...); err != nil || !strings.Contains(out, c.want) {
			t.Errorf("%v: %v\n%s", c.args, err, out)
		}
	}
}

// run runs a command on a data folder and returns what it prints.
func run(data string, command func(*verb.App) *cobra.Command, args ...string) (string, error) {
	c := command(&verb.App{Conn: natsconn.Flags{Data: data}})
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetErr(new(bytes.Buffer))
	c.SetArgs(args)
	err := c.ExecuteContext(context.Background())
	return out.String(), err
}

// Commands print the position of an entry in one notation, such as 2.1. Each command that shows or proves an entry must
// accept this notation, and the number in JSON too.
func TestAnEntryIsFoundByThePositionThatIsPrinted(t *testing.T) {
	data, signer, master := rotatable(t)
	l, err := chain.Open(datafolder.AuditDir(data), chain.Options{Signer: signer, Origin: "log", MasterKey: master})
	if err != nil {
		t.Fatal(err)
	}
	var entries []chain.Entry
	for _, at := range []uint64{1, 2, position.At(2, 1), position.At(2, 2), 3} {
		entries = append(entries, chain.Entry{Seq: at, Time: time.Unix(1, 0), Type: "observation", Project: "acme",
			Payload: []byte("ingest 0 0\n{}")})
	}
	if err := l.Append(entries); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	list, err := run(data, lsCommand)
	if err != nil || !strings.Contains(list, " 2.1 ") || !strings.Contains(list, " 2.2 ") ||
		strings.Contains(list, "17592186044418") {
		t.Errorf("%v\n%s", err, list)
	}
	for _, c := range []struct {
		args  []string
		index int64
	}{{[]string{"2.1"}, 2}, {[]string{"--seq", "2.2"}, 3}, {[]string{"--seq", "2"}, 1}, {[]string{"--seq", "3"}, 4},
		{[]string{"17592186044418"}, 2}, {[]string{"--seq", "17592186044418"}, 2}, {[]string{"2"}, 2}} {
		out, err := run(data, showCommand, c.args...)
		var e struct{ Index int64 }
		if jerr := json.Unmarshal([]byte(out), &e); err != nil || jerr != nil || e.Index != c.index {
			t.Errorf("show %v: %v, %v\n%s", c.args, err, jerr, out)
		}
		file := t.TempDir() + "/proof"
		if out, err = run(data, proveCommand, append(c.args, "-o", file)...); err != nil ||
			!strings.Contains(out, "ledger entry "+position.Text(entries[c.index].Seq)+",") {
			t.Errorf("prove %v: %v\n%s", c.args, err, out)
		}
	}
	for _, args := range [][]string{{"2.3"}, {"--seq", "4"}, {"--seq", "0"}, {"--seq", "x"}, {"1", "--seq", "1"}, {"1.x"}} {
		if out, err := run(data, showCommand, args...); err == nil {
			t.Errorf("show %v: %s", args, out)
		}
		if out, err := run(data, proveCommand, args...); err == nil {
			t.Errorf("prove %v: %s", args, out)
		}
	}
}
