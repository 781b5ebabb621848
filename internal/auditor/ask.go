package auditor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go"

	"lazaret/internal/query"
	"lazaret/pkg/text"
)

// Ask sends a request to any auditor and returns its reply.
func Ask(ctx context.Context, nc *nats.Conn, req Request) (*Answer, error) {
	ans := new(Answer)
	return ans, query.Ask(ctx, nc, AskAudit, 0, req, ans)
}

// snapshotName matches the name of a folder that an auditor makes for a snapshot.
var snapshotName = regexp.MustCompile(`^[^/\\]+-[0-9]+$`)

// AskSnapshot asks the auditor of the log in dir for a snapshot. If several auditors run, any of them may get a
// request, so it repeats the request until the right one replies. Callers remove the snapshot's folder. So AskSnapshot
// does not trust the path in a reply: it takes only the name from it, and returns the folder of that name in the
// folder snapshots beside the log.
func AskSnapshot(ctx context.Context, nc *nats.Conn, dir string) (*Answer, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	snapshots := filepath.Join(filepath.Dir(dir), "snapshots")
	said := ""
	for range 64 {
		ans, err := Ask(ctx, nc, Request{Do: "snapshot"})
		if err != nil {
			return nil, err
		}
		said = ans.Dir
		name := filepath.Base(ans.Dir)
		ans.Dir = filepath.Join(snapshots, name)
		fi, err := os.Lstat(ans.Dir)
		if err != nil || !fi.IsDir() || !snapshotName.MatchString(name) {
			continue
		}
		if strings.HasPrefix(name, filepath.Base(dir)+"-") {
			return ans, nil
		}
		if err := os.RemoveAll(ans.Dir); err != nil {
			return nil, fmt.Errorf("removing the snapshot of another auditor: %w", err)
		}
	}
	return nil, fmt.Errorf("only auditors of other logs answered, and none of %s: the last one named the snapshot %q, "+
		"which is not in %s: name the log of a running auditor on this machine with --dir (the folder audit beside its "+
		"snapshots), or run the command on the auditor's machine", dir, text.InertLine(said, 200), snapshots)
}

// WithSnapshot calls f with a snapshot of the log in dir and removes the snapshot. An erasure removes every snapshot
// of the log. If f fails because an erasure removed its snapshot, WithSnapshot calls f with a new snapshot, at most
// three times in all.
func WithSnapshot(ctx context.Context, nc *nats.Conn, dir string, f func(dir string) error) error {
	for try := 1; ; try++ {
		ans, err := AskSnapshot(ctx, nc, dir)
		if err != nil {
			return err
		}
		err = f(ans.Dir)
		_, there := os.Stat(ans.Dir)
		if err == nil || !errors.Is(there, os.ErrNotExist) || try == 3 {
			return errors.Join(err, os.RemoveAll(ans.Dir))
		}
	}
}

// Gone returns an error if the folder is a snapshot that an erasure has removed. A snapshot's folder is
// renamed before its files are removed. So a check that found files missing must be repeated if Gone
// returns an error.
func Gone(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("an erasure removed the snapshot of the log: %w", err)
	}
	return nil
}
