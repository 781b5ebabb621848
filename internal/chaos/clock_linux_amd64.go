package chaos

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// clock replaces the wall clock of one running process. The kernel maps the code that reads the clock,
// the vDSO, into every process. takeClock writes, through /proc/PID/mem, a jump instruction into the vDSO. It
// leads to code that calls the kernel and adds an offset to CLOCK_REALTIME. The program itself, the machine's
// clock and the monotonic clock are unchanged.
type clock struct {
	pid    int
	offset int64 // address of the offset in the process
}

// clockCode is the machine code of clock_gettime(clock, *timespec). It calls the kernel. If clock is 0
// (CLOCK_REALTIME), it adds the seconds that are stored at clockData.
var clockCode = []byte{
	0xb8, 0xe4, 0, 0, 0, //                 mov  eax, 228 (clock_gettime)
	0x0f, 0x05, //                          syscall
	0x85, 0xc0, 0x75, 0x10, //              test eax, eax; jnz end
	0x85, 0xff, 0x75, 0x0c, //              test edi, edi; jnz end
	0x48, 0x8b, 0x05, 0x0a, 0, 0, 0, //     mov  rax, [rip+10] (clockData)
	0x48, 0x01, 0x06, //                    add  [rsi], rax
	0x31, 0xc0, //                          xor  eax, eax
	0xc3, //                                end: ret
}

const (
	clockData = 32            // offset from the beginning of the code
	clockRoom = clockData + 8 // bytes
)

// takeClock replaces the wall clock of a process that was just started. The offset is 0 until set changes it.
func takeClock(p *os.Process) (*clock, error) {
	c := &clock{pid: p.Pid}
	mem, err := os.OpenFile(c.proc("mem"), os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("setting up a separate clock: %w", err)
	}
	defer mem.Close()
	at, size, err := c.vdso()
	if err != nil {
		return nil, err
	}
	image := make([]byte, size)
	if _, err := mem.ReadAt(image, at); err != nil {
		return nil, fmt.Errorf("reading the vDSO: %w", err)
	}
	entry, err := clockEntry(image)
	if err != nil {
		return nil, err
	}
	used := int64(len(bytes.TrimRight(image, "\x00")))
	code := (used + 63) &^ 63
	if code+clockRoom > size {
		return nil, errors.New("the vDSO has too little free space for a clock")
	}
	c.offset = at + code + clockData
	jump := binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(int32(code-(entry+5))))
	// Wait until no thread executes the first bytes of the old code, which are then changed.
	for range 100 {
		if err := p.Signal(syscall.SIGSTOP); err != nil {
			return nil, err
		}
		within := c.within(at+entry, at+entry+int64(len(jump)))
		if !within {
			if _, err = mem.WriteAt(clockCode, at+code); err == nil {
				_, err = mem.WriteAt(jump, at+entry)
			}
		}
		if err := errors.Join(err, p.Signal(syscall.SIGCONT)); err != nil {
			return nil, fmt.Errorf("writing into the vDSO: %w", err)
		}
		if !within {
			return c, nil
		}
		time.Sleep(time.Millisecond)
	}
	return nil, errors.New("the process did not leave the code that reads the clock")
}

func (c *clock) proc(name string) string { return fmt.Sprintf("/proc/%d/%s", c.pid, name) }

// vdso returns the address and size of the process's vDSO.
func (c *clock) vdso() (at, size int64, err error) {
	b, err := os.ReadFile(c.proc("maps"))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			var end int64
			if _, err := fmt.Sscanf(line, "%x-%x", &at, &end); err != nil {
				return 0, 0, fmt.Errorf("%s: %w", c.proc("maps"), err)
			}
			return at, end - at, nil
		}
	}
	return 0, 0, errors.New("the process has no vDSO")
}

// clockEntry returns the offset of the code that reads the clock.
func clockEntry(image []byte) (int64, error) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, fmt.Errorf("the vDSO: %w", err)
	}
	defer f.Close()
	syms, err := f.DynamicSymbols()
	if err != nil {
		return 0, fmt.Errorf("the vDSO: %w", err)
	}
	for _, s := range syms {
		if s.Name == "__vdso_clock_gettime" && s.Value+5 < uint64(len(image)) {
			return int64(s.Value), nil
		}
	}
	return 0, errors.New("the vDSO has no __vdso_clock_gettime")
}

// within reports whether a thread of the stopped process may be executing code between the addresses from and
// to. It returns true also if a thread has not stopped yet, because its address is then unknown.
func (c *clock) within(from, to int64) bool {
	threads, err := filepath.Glob(c.proc("task/*/syscall"))
	if err != nil || len(threads) == 0 {
		return true
	}
	for _, t := range threads {
		b, err := os.ReadFile(t)
		fields := strings.Fields(string(b))
		if err != nil || len(fields) < 2 {
			return true // still running, or ended
		}
		var pc int64
		if _, err := fmt.Sscanf(fields[len(fields)-1], "0x%x", &pc); err != nil || pc > from && pc < to {
			return true
		}
	}
	return false
}

// set makes the process's wall clock differ from the machine's by this duration.
func (c *clock) set(by time.Duration) error {
	mem, err := os.OpenFile(c.proc("mem"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	_, err = mem.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(int64(by/time.Second))), c.offset)
	return err
}
