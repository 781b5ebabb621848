package rules

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"lazaret/internal/cli/verb"
	"lazaret/internal/ingest"
	"lazaret/internal/query"
	"lazaret/pkg/rules"
	"lazaret/pkg/rules/lint"
	"lazaret/pkg/rules/ruletest"
	"lazaret/streams"
)

// Intervals for watching a folder of rules. The files are polled, because that works on every file system and
// with every editor.
const (
	watchEvery  = time.Second
	watchSettle = 100 * time.Millisecond // between two reads that must be equal
	watchRetry  = 5 * time.Second        // pause after the server could not be reached
)

// watchRules activates the rules in a folder whenever they change and pass all checks, until ctx ends.
func watchRules(ctx context.Context, w io.Writer, dir string, o *verb.Operator) error {
	if _, err := os.ReadDir(dir); err != nil {
		return err
	}
	fmt.Fprintf(w, "watching %s; Ctrl-C ends this, and the rules in force stay in force\n", dir)
	seen, wait := "", time.Duration(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = watchEvery
		b, err := settled(ctx, dir)
		if ctx.Err() != nil {
			return nil
		}
		now := streams.Digest(b)
		if err != nil {
			now = err.Error()
		}
		if now == seen {
			continue
		}
		seen = now
		if err != nil {
			fmt.Fprintln(w, err)
			refused(o, ctx, w)
			continue
		}
		if retry := try(o, ctx, w, dir, b); retry {
			seen, wait = "", watchRetry
		}
	}
}

// settled packs a folder once two reads of it are equal, so that a partly written file is not read. If it changes at
// each of 20 reads, settled returns the last one.
func settled(ctx context.Context, dir string) ([]byte, error) {
	read := func() ([]byte, error) { return packRules(dir) }
	b, err := read()
	for range 20 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(watchSettle):
		}
		again, aerr := read()
		if err == nil && aerr == nil && bytes.Equal(b, again) {
			return b, nil
		}
		if err != nil && aerr != nil && err.Error() == aerr.Error() {
			return nil, err
		}
		b, err = again, aerr
	}
	return b, err
}

// try checks and tests a bundle, and activates it if it passes. It reports whether to try the same
// bundle again.
func try(o *verb.Operator, ctx context.Context, w io.Writer, dir string, b []byte) (retry bool) {
	tests, ok := vet(ctx, w, dir, b)
	if ctx.Err() != nil {
		return false
	}
	if !ok {
		refused(o, ctx, w)
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	digest := streams.Digest(b)
	active, err := active(o, ctx)
	if err != nil {
		fmt.Fprintf(w, "the rules pass all checks, but could not be put in force: %v; trying again\n", err)
		return true
	}
	if len(active) == 1 && active[0] == digest {
		fmt.Fprintf(w, "in force already: %s (%s)\n", digest, tests)
		return false
	}
	if err := o.Publish(ctx, streams.DoActivateRules, b); err != nil {
		fmt.Fprintf(w, "the rules pass all checks, but could not be put in force: %v; trying again\n", err)
		return true
	}
	if err := o.Await(ctx, streams.DoActivateRules, b, w); err != nil {
		// The bundle was refused or will be active later: a retry would not help.
		fmt.Fprintln(w, err)
		return false
	}
	fmt.Fprintf(w, "in force: %s (%s)\n", digest, tests)
	return false
}

// vet prints the faults of a bundle, and reports whether it may be activated. The bundle must load, lint must find
// no errors, and the bundle's tests must pass.
func vet(ctx context.Context, w io.Writer, dir string, b []byte) (tests string, ok bool) {
	src, err := rules.Open(b)
	if err != nil {
		fmt.Fprintln(w, err)
		return "", false
	}
	found, err := lint.Run(src, time.Now())
	if err != nil {
		fmt.Fprintln(w, err)
		return "", false
	}
	found = slices.DeleteFunc(found, func(f lint.Finding) bool { return f.Level == lint.LevelNote })
	if err := lint.WriteFindings(w, folder(dir), found); err != nil {
		return "", false
	}
	if n := lint.Count(found, lint.LevelError); n > 0 {
		fmt.Fprintf(w, "%s, ", count(found, lint.LevelError))
		return "", false
	}
	rep, err := ruletest.Run(ctx, src)
	if err != nil {
		fmt.Fprintln(w, err)
		return "", false
	}
	if rep.Failed > 0 {
		fmt.Fprint(w, rep)
		return "", false
	}
	return fmt.Sprintf("%d tests passed", rep.Passed), true
}

// refused prints which rules stay active.
func refused(o *verb.Operator, ctx context.Context, w io.Writer) {
	if ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	active, err := active(o, ctx)
	switch {
	case err != nil:
		fmt.Fprintf(w, "not activated; the rules in force stay in force (their digest is not known: %v)\n", err)
	case len(active) == 1:
		fmt.Fprintln(w, "not activated; still in force:", active[0])
	default:
		fmt.Fprintln(w, "not activated; in force, by partition:", active)
	}
}

// active returns the digests of the rule sets that are active in any partition.
func active(o *verb.Operator, ctx context.Context) (digests []string, err error) {
	for p := range streams.Partitions {
		var a ingest.ActiveAnswer
		if err := query.Ask(ctx, o.Nc, ingest.AskActive, p, struct{}{}, &a); err != nil {
			return nil, errors.Join(errors.New("asking ingest for the rules in force"), err)
		}
		a.Rules = cmp.Or(a.Rules, "no rules")
		if !slices.Contains(digests, a.Rules) {
			digests = append(digests, a.Rules)
		}
	}
	return digests, nil
}
