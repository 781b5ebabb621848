package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// result is the result of a target.
type result struct {
	Package  string  `json:"package"`
	Target   string  `json:"target"`
	Seconds  float64 `json:"seconds"` // duration of the fuzzing
	Execs    int64   `json:"execs"`
	Corpus   int64   `json:"corpus"`            // inputs that increase the coverage
	Findings int     `json:"findings"`          // number of failures: at most one, because Go stops at the first
	Said     string  `json:"said,omitempty"`    // output of the failure
	NotRun   string  `json:"not_run,omitempty"` // why it did not run
}

func main() {
	budget := flag.Duration("time", time.Minute, "how long each target runs")
	only := flag.String("run", "", "only targets whose package and name, as in pkg/rules.FuzzOpen, match `REGEXP`")
	workers := flag.Int("parallel", 0, "processes that try inputs; 0: one for each CPU")
	asJSON := flag.Bool("json", false, "print JSON")
	keep := flag.Int("keep", 0, "copy up to `N` inputs that were found, of all sizes up to 2 KiB, into each target's "+
		"testdata/fuzz: seeds that go test runs")
	list := flag.Bool("list", false, "print the targets and run none")
	flag.Parse()
	results, err := run(*budget, *only, *workers, *keep, *list)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
	if *list {
		return
	}
	if *asJSON {
		err = json.NewEncoder(os.Stdout).Encode(results)
	} else {
		err = table(os.Stdout, results)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
	for _, r := range results {
		if r.Findings > 0 || r.NotRun != "" {
			os.Exit(2)
		}
	}
}

var target = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(f \*testing\.F\)`)

// targets returns the fuzz targets by folder, found in the sources: listing them with go test would
// link every test of the module.
func targets(root string) (map[string][]string, error) {
	out := make(map[string][]string)
	err := filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") &&
			name != root):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range target.FindAllSubmatch(b, -1) {
			dir := filepath.ToSlash(filepath.Dir(name))
			out[dir] = append(out[dir], string(m[1]))
		}
		return nil
	})
	return out, err
}

func run(budget time.Duration, only string, workers, keep int, list bool) ([]result, error) {
	pick, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	byDir, err := targets(".")
	if err != nil {
		return nil, err
	}
	if len(byDir) == 0 {
		return nil, errors.New("no fuzz target below this folder: run it in the module's root")
	}
	var dirs []string
	for dir := range byDir {
		dirs = append(dirs, dir)
	}
	sort.Strings(dirs)
	cache, err := goEnv("GOCACHE")
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "fuzz-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	var out []result
	for _, dir := range dirs {
		binary := ""
		sort.Strings(byDir[dir])
		for _, name := range byDir[dir] {
			if !pick.MatchString(dir + "." + name) {
				continue
			}
			if list {
				fmt.Printf("%s %s\n", dir, name)
				continue
			}
			if binary == "" {
				if binary, err = build(dir, filepath.Join(tmp, strings.ReplaceAll(dir, "/", "_"))); err != nil {
					return out, err
				}
			}
			found := filepath.Join(cache, "fuzz", "lazaret", filepath.FromSlash(dir))
			r := fuzz(dir, name, binary, found, budget, workers)
			if keep > 0 {
				if err := keepSome(filepath.Join(found, name), filepath.Join(filepath.FromSlash(dir), "testdata", "fuzz", name),
					keep); err != nil {
					return out, err
				}
			}
			fmt.Fprintf(os.Stderr, "%-60s %8.0f s %12d execs  %s\n", dir+" "+name, r.Seconds, r.Execs, verdict(r))
			out = append(out, r)
		}
	}
	if len(out) == 0 && !list {
		return nil, fmt.Errorf("no target matches %q", only)
	}
	return out, nil
}

func goEnv(name string) (string, error) {
	b, err := exec.Command("go", "env", name).Output()
	return strings.TrimSpace(string(b)), err
}

// build builds an instrumented test binary for all targets of a package.
func build(dir, to string) (string, error) {
	cmd := exec.Command("go", "test", "-c", "-fuzz=Fuzz", "-o", to, "./"+dir)
	if b, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", dir, err, b)
	}
	return to, nil
}

var progress = regexp.MustCompile(`fuzz: elapsed: (\S+?), execs: (\d+) .*\(total: (\d+)\)`)

// fuzz runs one target.
func fuzz(dir, name, binary, cache string, budget time.Duration, workers int) result {
	r := result{Package: dir, Target: name}
	args := []string{"-test.run=^$", "-test.fuzz=^" + name + "$", "-test.fuzztime=" + budget.String(),
		"-test.fuzzcachedir=" + cache, "-test.paniconexit0", "-test.timeout=0",
		// The fuzzer's default is a minute for minimizing one input, which is too long here.
		"-test.fuzzminimizetime=1s"}
	if workers > 0 {
		args = append(args, "-test.parallel="+strconv.Itoa(workers))
	}
	cmd := exec.Command(binary, args...)
	cmd.Dir = filepath.FromSlash(dir)
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	err := cmd.Run()
	for _, m := range progress.FindAllStringSubmatch(b.String(), -1) {
		if d, perr := time.ParseDuration(m[1]); perr == nil {
			r.Seconds = d.Seconds()
		}
		r.Execs, _ = strconv.ParseInt(m[2], 10, 64)
		r.Corpus, _ = strconv.ParseInt(m[3], 10, 64)
	}
	said := strings.TrimSpace(b.String())
	switch {
	case err != nil:
		r.Findings, r.Said = 1, said[max(0, strings.Index(said, "--- FAIL")):]
	case r.Execs == 0:
		r.NotRun = "it tried nothing: " + said
	}
	return r
}

// maxSeed is the limit of inputs that are kept as seeds, in bytes.
const maxSeed = 2 << 10

// keepSome copies inputs from the folder from, where the fuzzer put them, to the folder of seeds to, until that
// has n seeds or no more inputs are left. It chooses inputs of different sizes, of at most maxSeed bytes.
func keepSome(from, to string, n int) error {
	have, err := os.ReadDir(to)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	all, err := os.ReadDir(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	type input struct {
		name string
		size int64
	}
	var found []input
	for _, e := range all {
		if fi, err := e.Info(); err == nil && fi.Size() <= maxSeed {
			found = append(found, input{e.Name(), fi.Size()})
		}
	}
	sort.Slice(found, func(i, j int) bool {
		return found[i].size < found[j].size || found[i].size == found[j].size && found[i].name < found[j].name
	})
	want := min(n-len(have), len(found))
	for i := range max(want, 0) {
		f := found[i*len(found)/want]
		b, err := os.ReadFile(filepath.Join(from, f.name))
		if err == nil {
			err = os.MkdirAll(to, 0o777)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, f.name), b, 0o666)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func verdict(r result) string {
	switch {
	case r.NotRun != "":
		return "NOT RUN"
	case r.Findings > 0:
		return "FOUND"
	}
	return "none"
}

func table(w io.Writer, results []result) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "PACKAGE\tTARGET\tTIME\tEXECS\tCORPUS\tFINDINGS")
	var seconds float64
	var execs int64
	found := 0
	for _, r := range results {
		fmt.Fprintf(tw, "%s\t%s\t%.0f s\t%d\t%d\t%s\n", r.Package, r.Target, r.Seconds, r.Execs, r.Corpus, verdict(r))
		seconds, execs, found = seconds+r.Seconds, execs+r.Execs, found+r.Findings
	}
	fmt.Fprintf(tw, "%d targets\t\t%.0f s\t%d\t\t%d\n", len(results), seconds, execs, found)
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		if r.Said+r.NotRun != "" {
			fmt.Fprintf(w, "\n%s %s\n%s\n", r.Package, r.Target, r.Said+r.NotRun)
		}
	}
	return nil
}
