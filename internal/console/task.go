package console

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// Limits of tasks. A task may take longer than the request that starts it.
const (
	maxTasks = 16
	taskTime = 30 * time.Second       // maximum duration of a task
	taskWait = 100 * time.Millisecond // time for which a request waits for its task; then it shows the progress
	taskKept = time.Minute            // time for which the result of a task is stored
)

// task is work that may go on after the request that started it.
type task struct {
	Began time.Time

	done chan struct{} // closed when out and err are set
	out  any
	err  error

	mu    sync.Mutex
	doing string // guarded by mu
}

// say sets the progress text.
func (t *task) say(s string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.doing = s
}

// Doing returns the progress text.
func (t *task) Doing() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.doing
}

func (t *task) ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// tasks has the tasks of a console. The key is the session and the requested URL.
type tasks struct {
	mu sync.Mutex
	by map[[2]string]*task // guarded by mu
}

// find returns the task of a session and a URL. If there is none, it starts one.
func (l *tasks) find(key [2]string, begin func(t *task)) (*task, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.by[key]; t != nil {
		return t, nil
	}
	for k, t := range l.by {
		if t.ended() && time.Since(t.Began) > taskTime+taskKept {
			delete(l.by, k)
		}
	}
	if len(l.by) >= maxTasks {
		return nil, &failure{http.StatusServiceUnavailable, "Busy", "Too many tasks are running: try again in a moment."}
	}
	if l.by == nil {
		l.by = make(map[[2]string]*task)
	}
	t := &task{Began: time.Now(), done: make(chan struct{}), doing: "It begins."}
	l.by[key] = t
	begin(t)
	return t, nil
}

func (l *tasks) drop(key [2]string, t *task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by[key] == t {
		delete(l.by, key)
	}
}

// perform runs f as a task and returns its result. If the task takes longer than taskWait, it goes on after the
// request, and perform returns the task in running. The page then reloads until it gets the result, and the task is
// removed. f must not use p, because p belongs to a single request.
func perform[T any](c *Console, r *http.Request, p *page, f func(ctx context.Context, t *task) (T, error)) (out T,
	running *task, err error) {
	key := [2]string{p.login, r.URL.RequestURI()}
	t, err := c.tasks.find(key, func(t *task) {
		c.wg.Go(func() {
			defer close(t.done)
			ctx, cancel := context.WithTimeout(c.ctx, taskTime)
			defer cancel()
			t.out, t.err = f(ctx, t)
		})
	})
	if err != nil {
		return out, nil, err
	}
	late := time.NewTimer(taskWait)
	defer late.Stop()
	select {
	case <-t.done:
	case <-late.C:
		p.Again = true
		return out, t, nil
	case <-r.Context().Done():
		return out, nil, r.Context().Err()
	}
	c.tasks.drop(key, t)
	if errors.Is(t.err, context.DeadlineExceeded) && c.ctx.Err() == nil {
		return out, nil, errTooLong
	}
	out, _ = t.out.(T)
	return out, nil, t.err
}

// errTooLong means that a task exceeded taskTime.
var errTooLong = errors.New("the task takes too long for the console")
