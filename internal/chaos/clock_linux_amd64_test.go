package chaos

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// tellTime makes this test binary print its wall clock and monotonic clock for each input line.
const tellTime = "LAZARET_TEST_TELL_TIME"

func TestMain(m *testing.M) {
	if os.Getenv(tellTime) != "" {
		began := time.Now()
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			fmt.Println(time.Now().Unix(), int64(time.Since(began).Seconds()))
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestAProcessHasAClockOfItsOwn(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), tellTime+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); cmd.Wait() }()
	c, err := takeClock(cmd.Process)
	if err != nil {
		t.Skipf("SKIPPED, clocks cannot be set here: %v", err)
	}
	lines := bufio.NewReader(out)
	for _, by := range []time.Duration{0, 400 * 24 * time.Hour, -30 * time.Second, 0} {
		if err := c.set(by); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(in)
		var wall, mono int64
		if _, err := fmt.Fscanln(lines, &wall, &mono); err != nil {
			t.Fatal(err)
		}
		if off := time.Duration(wall-time.Now().Unix())*time.Second - by; off < -3*time.Second || off > 3*time.Second {
			t.Errorf("with the offset %v, the wall clock is wrong by %v", by, off)
		}
		if mono < 0 || mono > 60 {
			t.Errorf("with the offset %v, the monotonic clock says %d s", by, mono)
		}
	}
}
