package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	program, err := build(dir)
	if err != nil {
		return false, err
	}
	fmt.Printf("built in %.0f s\n", time.Since(began).Seconds())
	all := append([]mutant{{name: "none", what: "the program as it is", args: control}}, mutants...)
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
			said, ok := try(program, m)
			mu.Lock()
			defer mu.Unlock()
			good = good && ok
			fmt.Printf("%-5s %-56s %5.0f s  %s\n", m.name, m.what, time.Since(began).Seconds(), said)
		})
	}
	wg.Wait()
	return good, nil
}

// build builds the mutated program in dir, with links for the daemons.
func build(dir string) (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("looking for the module: %w", err)
	}
	root := strings.TrimSpace(string(out))
	list, err := overlay(root, dir)
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "lazaret")
	cmd := exec.Command("go", "build", "-overlay", list, "-o", program, "./cmd/lazaret")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the mutated program: %w\n%s", err, out)
	}
	for _, d := range []string{"ingest", "sentinels", "arbiter", "auditor"} {
		if err := os.Symlink("lazaret", filepath.Join(dir, d)); err != nil {
			return "", err
		}
	}
	return program, nil
}

// tries is how often a mutant may survive: whether a fault shows depends on the moment of a kill.
const tries = 5

// try runs chaos for a mutant until the expected problem is found, at most tries times, and reports
// whether it was. For the unmutated program no problem must be found, in one run.
func try(program string, m mutant) (said string, ok bool) {
	for range tries {
		if said, ok = once(program, m); ok || m.found == nil {
			break
		}
	}
	return said, ok
}

// once runs chaos for a mutant.
func once(program string, m mutant) (said string, ok bool) {
	cmd := exec.Command(program, append([]string{"chaos", "--kills", "0", "--full-disk=false", "--json"}, m.args...)...)
	cmd.Env = os.Environ()
	if m.found != nil {
		cmd.Env = append(cmd.Env, variable+"="+m.name)
	}
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
	case m.found == nil && rep.OK():
		said := fmt.Sprintf("passes: %d events, %d proposals, %d answers, %d take-overs", rep.Events, rep.Proposals,
			rep.Answers, rep.TookOver)
		return said, true
	case m.found == nil:
		return "FAILS: " + strings.Join(rep.Problems, "; "), false
	case m.found(rep) > 0 && !rep.OK():
		return fmt.Sprintf("killed: %d %s", m.found(rep), m.verdict), true
	}
	return fmt.Sprintf("SURVIVES: nothing %s; %s", m.verdict, strings.Join(rep.Problems, "; ")), false
}
