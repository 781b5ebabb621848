package client_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// outside is a package of another module. It uses the parts of the client that a host needs.
const outside = `package outside

import (
	"context"

	"github.com/nats-io/nats.go"

	"lazaret/client"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func mail(ctx context.Context, nc *nats.Conn) (bool, error) {
	c, err := client.New(nc, "demo", "agent")
	if err != nil {
		return false, err
	}
	if _, err := c.Submit(ctx, beliefs.OriginWeb, &streams.Observation{Content: "a page"}); err != nil {
		return false, err
	}
	act := &streams.Action{Tool: "send_email"}
	rep, err := c.Decide(ctx, act)
	if err == nil && rep.Verdict == streams.Hold {
		rep, err = c.Await(ctx, act, rep)
	}
	return err == nil && rep.Verdict == streams.Allow, err
}
`

func TestAnotherModuleCanRequireTheClient(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"outside.go": outside, "go.sum": string(sums),
		"go.mod": fmt.Sprintf("module example.org/outside\n\ngo 1.26\n\nrequire lazaret v0.0.0\n\nreplace lazaret => %s\n",
			root),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "./...")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS=-mod=mod -trimpath", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
