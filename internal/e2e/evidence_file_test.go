package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lazaret/internal/datafolder"
	"lazaret/internal/natstest"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
)

// TestPromiseB16SomebodyElsesVerifierChecksTheEvidenceAndRefusesEveryChangeOfIt verifies real evidence with an
// independent program. The program was written from docs/evidence.md and imports none of Lazaret's packages. It must
// accept the evidence and refuse each changed form of it.
func TestPromiseB16SomebodyElsesVerifierChecksTheEvidenceAndRefusesEveryChangeOfIt(t *testing.T) {
	long(t)
	t.Parallel()
	dir := t.TempDir()
	verifier := filepath.Join(dir, "verifier")
	if out, err := exec.Command("go", "build", "-o", verifier, "../../examples/verifier").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	imports, err := exec.Command("go", "list", "-f", "{{join .Deps \"\\n\"}}", "../../examples/verifier").Output()
	if err != nil || bytes.Contains(imports, []byte("lazaret")) || bytes.Contains(imports, []byte("golang.org/x/mod")) {
		t.Fatalf("the verifier imports more than the standard library: %s, %v", imports, err)
	}

	var exit *exec.ExitError
	if err := exec.Command(verifier, "-logs", "x", "file").Run(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("an unknown flag: %v, want exit code 1", err)
	}

	data, addr := filepath.Join(dir, "data"), freePort(t)
	start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", addr, "--no-sync")
	must(t, data, "key", "gen", "witness.example", filepath.Join(dir, "witness.key"))
	logKey := strings.Fields(must(t, data, "audit", "witness", "ls"))[1]
	w := start(t, "served at", "lazaret", "audit", "witness", "run", "--key", filepath.Join(dir, "witness.key"),
		"--state", filepath.Join(dir, "seen"), "--log", logKey, "--listen", "127.0.0.1:0")
	witness := strings.Fields(w.output())[0]
	must(t, data, "audit", "witness", "add", "bob", witness, urlIn.FindString(w.output()))
	alice := filepath.Join(dir, "alice.key")
	must(t, data, "key", "gen", "alice", alice, "--pin", "approver")
	must(t, data, "key", "activate")

	must(t, data, "observe", "--session", "s1", "--tool", "web.fetch", "the page")
	if out, code := command(t, data, "remember", "--session", "s1", "--sensitivity", "confidential", "--origin", "user",
		"The code word is Xylophone-7741"); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	out, code := command(t, data, "decide", "send_email", "--session", "s1", "--id", "m1", "--args",
		`{"to":"bob@example.org"}`)
	_, hold, ok := strings.Cut(out, "hold h")
	if code != 10 || !ok {
		t.Fatalf("exit %d: %s", code, out)
	}
	must(t, data, "holds", "approve", "h"+hold[:16], "--key", alice, "--reason", "it is Bob")

	trust, err := keys.LoadTrust(datafolder.TrustFile(data))
	if err != nil {
		t.Fatal(err)
	}
	given := []string{}
	for _, p := range trust.Pins() {
		switch {
		case slices.Contains(p.Roles, keys.RoleAuditor):
			given = append(given, "-log", p.Key)
		case slices.Contains(p.Roles, keys.RoleOperator):
			given = append(given, "-operator", p.Key)
		}
	}
	verify := func(file string, more ...string) (string, int) {
		t.Helper()
		out, err := exec.Command(verifier, append(append(slices.Clone(given), more...), file)...).CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if exit != nil {
			return string(out), exit.ExitCode()
		}
		return string(out), 0
	}

	// Evidence of one proposal, and evidence of a whole session.
	var file string
	for name, of := range map[string]string{"proposal": "m1", "session": "s1"} {
		file = filepath.Join(dir, name+".json")
		natstest.Eventually(t, 30*time.Second, "the evidence of the "+name+" has its approval and a cosignature",
			func() bool {
				out, code := command(t, data, "audit", "evidence", of, "-o", file)
				b, _ := os.ReadFile(file)
				return code == 0 && strings.Contains(out, "1 approvals") && bytes.Contains(b, []byte("— witness.example "))
			})
		if out, code := verify(file, "-witness", witness); code != 0 || !strings.Contains(out, "VERIFIED  "+name) ||
			!strings.Contains(out, "1 approvals") {
			t.Errorf("exit %d: %s", code, out)
		}
		// A witness that never cosigned.
		_, stranger, err := keys.Generate("stranger.example")
		if err != nil {
			t.Fatal(err)
		}
		if out, code := verify(file, "-witness", witness, "-witness", stranger); code != 3 ||
			strings.Contains(out, "VERIFIED") || !strings.Contains(out, "no cosignature by stranger.example+") ||
			strings.Contains(out, "witness.example+") {
			t.Errorf("with a witness that did not cosign: exit %d: %s", code, out)
		}
		if out, code := verify(file); code != 3 || !strings.Contains(out, "witness.example+") {
			t.Errorf("without the witness's key: exit %d: %s", code, out)
		}
	}
	file = filepath.Join(dir, "session.json")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// Confidential payloads are withheld and marked.
	if bytes.Contains(b, []byte("Xylophone")) || !bytes.Contains(b, []byte(`"withheld": "confidential"`)) {
		t.Errorf("a confidential payload: %s", b)
	}
	whole := filepath.Join(dir, "whole.json")
	must(t, data, "audit", "evidence", "s1", "--ceiling", "secret", "-o", whole)
	if all, err := os.ReadFile(whole); err != nil || !bytes.Contains(all, []byte("Xylophone")) ||
		bytes.Contains(all, []byte(`"withheld"`)) {
		t.Errorf("above the ceiling: %v", err)
	}
	natstest.Eventually(t, 30*time.Second, "the log has the look at what is marked", func() bool {
		out, _ := command(t, data, "audit", "ls", "--where", `type == "disclosure"`, "--last", "0")
		return strings.Contains(out, "disclosure")
	})
	if out, code := verify(whole, "-witness", witness); code != 0 {
		t.Errorf("exit %d: %s", code, out)
	}
	if out, code := command(t, data, "audit", "evidence", "nobody", "-o", whole); code != 2 ||
		!strings.Contains(out, "the log holds nothing") {
		t.Errorf("of nobody: exit %d: %s", code, out)
	}

	forged := filepath.Join(dir, "forged.json")
	// The verifier must accept the file after it was decoded and encoded again. So it refuses the changed files because
	// of the changes.
	var same any
	if err := json.Unmarshal(b, &same); err != nil {
		t.Fatal(err)
	}
	if anew, err := json.Marshal(same); err != nil || os.WriteFile(forged, anew, 0o600) != nil {
		t.Fatal(err)
	}
	if out, code := verify(forged, "-witness", witness); code != 0 {
		t.Fatalf("written anew: exit %d: %s", code, out)
	}
	n := 0
	eachChange(t, b, func(what string, changed []byte) {
		if n++; testing.Short() && n%8 != 0 {
			return
		}
		if err := os.WriteFile(forged, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, code := verify(forged, "-witness", witness); code != 2 && (code != 3 ||
			!strings.Contains(what, "checkpoint")) {
			t.Errorf("%s: exit %d: %s", what, code, out)
		}
	})
	if t.Logf("%d changes, of which a short run tries each eighth, were refused", n); n < 200 {
		t.Errorf("there are only %d changes", n)
	}

	// The proofs in a report must have everything that the verifier needs.
	report := filepath.Join(dir, "report")
	must(t, data, "report", "s1", "-o", report)
	proofs, err := filepath.Glob(filepath.Join(report, "proofs", "*.tlog-proof"))
	if err != nil || len(proofs) < 3 {
		t.Fatal(proofs, err)
	}
	for _, f := range proofs {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		p, err := chain.CheckProof(text, trust.Verifiers(keys.RoleAuditor), nil)
		if err != nil || len(p.Payload) == 0 || p.Salt == [16]byte{} {
			t.Errorf("%s: %+v, %v", f, p, err)
		}
	}
}

// eachChange calls fn with copies of a JSON document. Each copy has one change: a string has another first, middle or
// last character; a number is different; a member is removed, renamed or added; or an element is removed, duplicated or
// swapped with the next one.
func eachChange(t *testing.T, doc []byte, fn func(what string, changed []byte)) {
	t.Helper()
	var root any
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	if err := d.Decode(&root); err != nil {
		t.Fatal(err)
	}
	with := func(what string, set func(any), v, old any) {
		set(v)
		b, err := json.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		set(old)
		fn(what, b)
	}
	var walk func(path string, v any, set func(any))
	walk = func(path string, v any, set func(any)) {
		switch x := v.(type) {
		case string:
			r := []rune(x)
			for _, i := range slices.Compact([]int{0, len(r) / 2, max(0, len(r)-1)}) {
				if len(r) == 0 {
					break
				}
				c := slices.Clone(r)
				if c[i]++; c[i] == 0xd800 {
					c[i] = 'x'
				}
				with(fmt.Sprintf("%s, character %d", path, i), set, string(c), v)
			}
			with(path+", empty", set, "", v)
			with(path+", longer", set, x+"A", v)
		case json.Number:
			i, err := x.Int64()
			if err != nil {
				t.Fatal(err)
			}
			with(path+" + 1", set, json.Number(fmt.Sprint(i+1)), v)
			with(path+" = 0", set, json.Number("-1"), v)
		case map[string]any:
			for k, child := range x {
				delete(x, k)
				with(path+"."+k+", left out", func(any) {}, nil, nil)
				x[strings.ToUpper(k)] = child
				with(path+"."+k+", in capitals", func(any) {}, nil, nil)
				delete(x, strings.ToUpper(k))
				x[k] = child
			}
			x["more"] = 1
			with(path+".more, added", func(any) {}, nil, nil)
			delete(x, "more")
			for k, child := range x {
				walk(path+"."+k, child, func(v any) { x[k] = v })
			}
		case []any:
			for i, child := range x {
				with(fmt.Sprintf("%s[%d], left out", path, i), set, slices.Delete(slices.Clone(x), i, i+1), v)
				with(fmt.Sprintf("%s[%d], doubled", path, i), set, slices.Insert(slices.Clone(x), i, child), v)
				if i > 0 {
					c := slices.Clone(x)
					c[i], c[i-1] = c[i-1], c[i]
					with(fmt.Sprintf("%s[%d], swapped", path, i), set, c, v)
				}
				walk(fmt.Sprintf("%s[%d]", path, i), child, func(v any) { x[i] = v })
			}
		}
	}
	walk("", root, func(v any) { root = v })
}
