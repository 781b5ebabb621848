package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"lazaret/internal/chaos"
)

func main() {
	only := flag.String("run", "", "only these mutants, as in `M1,M7`, or none for the unmutated program")
	parallel := flag.Int("parallel", 2, "runs at a time")
	into := flag.String("build", "", "build the mutated program into `DIR` and run nothing")
	flag.Parse()
	if *into != "" {
		if _, err := build(*into); err != nil {
			fmt.Fprintln(os.Stderr, "mutants:", err)
			os.Exit(1)
		}
		return
	}
	ok, err := run(*only, *parallel)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
	if !ok {
		os.Exit(2)
	}
}

func run(only string, parallel int) (bool, error) {
	dir, err := os.MkdirTemp("", "lazaret-mutants-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	p, err := build(dir)
	if err != nil {
		return false, err
	}
	fmt.Printf("built in %.0f s\n", time.Since(began).Seconds())
	all := slices.Concat(controls, mutants)
	good := true
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, max(1, parallel))
	for _, m := range all {
		if only != "" && !strings.Contains(","+only+",", ","+m.name+",") {
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			began := time.Now()
			said, ok := try(p, m)
			mu.Lock()
			defer mu.Unlock()
			good = good && ok
			fmt.Printf("%-5s %-56s %5.0f s  %s\n", m.name, m.what, time.Since(began).Seconds(), said)
		})
	}
	wg.Wait()
	return good, nil
}

// programs are the mutated program, and the test program of internal/stage.
type programs struct{ lazaret, test, root string }

// build builds the mutated programs in dir, with links for the daemons.
func build(dir string) (*programs, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return nil, fmt.Errorf("looking for the module: %w", err)
	}
	p := &programs{lazaret: filepath.Join(dir, "lazaret"), test: filepath.Join(dir, "stage.test"),
		root: strings.TrimSpace(string(out))}
	list, err := overlay(p.root, dir)
	if err != nil {
		return nil, err
	}
	for _, args := range [][]string{{"build", "-overlay", list, "-o", p.lazaret, "./cmd/lazaret"},
		{"test", "-c", "-vet=off", "-overlay", list, "-o", p.test, "./internal/stage"}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = p.root
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building the mutated program: %w\n%s", err, out)
		}
	}
	for _, d := range []string{"ingest", "sentinels", "arbiter", "auditor"} {
		if err := os.Symlink("lazaret", filepath.Join(dir, d)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// tries is the maximum number of runs for a mutant. One run is not enough, because some faults show only if a kill
// comes at the right moment.
const tries = 5

// try runs chaos or the test for a mutant until the expected problem is found, at most tries times. It reports whether
// it was found. For the unmutated program, try makes one run, and reports whether no problem was found.
func try(p *programs, m mutant) (said string, ok bool) {
	run := once
	if m.test != "" {
		run = tested
	}
	for range tries {
		if said, ok = run(p, m); ok || m.name == none {
			break
		}
	}
	return said, ok
}

// command returns the command of a mutant.
func command(m mutant, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env = os.Environ()
	if m.name != none {
		cmd.Env = append(cmd.Env, variable+"="+m.name)
	}
	return cmd
}

// tested runs the tests of a mutant.
func tested(p *programs, m mutant) (said string, ok bool) {
	cmd := command(m, p.test, "-test.short", "-test.timeout", "5m", "-test.run", "^("+m.test+")$")
	cmd.Dir = filepath.Join(p.root, "internal", "stage")
	out, err := cmd.CombinedOutput()
	var e *exec.ExitError
	switch failed := bytes.Contains(out, []byte("--- FAIL")) && bytes.Contains(out, []byte(m.verdict)); {
	case m.name == none && err == nil:
		return "passes", true
	case m.name == none:
		return fmt.Sprintf("FAILS: %v: %s", err, out), false
	case failed && errors.As(err, &e):
		return "killed by " + m.test, true
	case err != nil:
		return fmt.Sprintf("COULD NOT RUN: %v: %s", err, out), false
	}
	return "SURVIVES: " + m.test + " passes", false
}

// once runs chaos for a mutant.
func once(p *programs, m mutant) (said string, ok bool) {
	cmd := command(m, p.lazaret, append([]string{"chaos", "--kills", "0", "--full-disk=false", "--json"}, m.args...)...)
	out, err := cmd.Output()
	rep := new(chaos.Report)
	if jerr := json.Unmarshal(out, rep); jerr != nil {
		var e *exec.ExitError
		if errors.As(err, &e) {
			out = e.Stderr
		}
		return fmt.Sprintf("COULD NOT RUN: %v: %s", err, out), false
	}
	switch {
	case m.name == none && rep.OK():
		said := fmt.Sprintf("passes: %d events, %d proposals, %d answers, %d joint, %d take-overs", rep.Events,
			rep.Proposals, rep.Answers, rep.Joint, rep.TookOver)
		return said, true
	case m.name == none:
		return "FAILS: " + strings.Join(rep.Problems, "; "), false
	case m.found(rep) > 0 && !rep.OK():
		return fmt.Sprintf("killed: %d %s", m.found(rep), m.verdict), true
	}
	return fmt.Sprintf("SURVIVES: nothing %s; %s", m.verdict, strings.Join(rep.Problems, "; ")), false
}
