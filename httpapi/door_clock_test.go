package httpapi_test

import (
	"net"
	"sync"
	"time"
)

// A skipping is a listener whose connections have a time of their own: a test skips
// a part of it instead of waiting. So it does not matter how fast the machine is.
type skipping struct {
	net.Listener
	accepted chan *skippingConn
}

func newSkipping(l net.Listener) *skipping { return &skipping{l, make(chan *skippingConn, 1)} }

func (l *skipping) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &skippingConn{Conn: conn}
	c.changed.L = &c.mu
	l.accepted <- c
	return c, nil
}

type skippingConn struct {
	net.Conn

	mu          sync.Mutex
	changed     sync.Cond     // that one of these has: reading, got, closed
	skipped     time.Duration // in all
	read, write time.Time     // the deadlines, in the time of the connection
	reading     bool
	got         int // bytes
	closed      bool
}

func (c *skippingConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

func (c *skippingConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = c.in(t)
	return c.Conn.SetReadDeadline(t)
}

func (c *skippingConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write = c.in(t)
	return c.Conn.SetWriteDeadline(t)
}

// in returns a time in the time of the connection; zero stays zero.
func (c *skippingConn) in(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(c.skipped)
}

// skip skips a part of the time of the connection. Deadlines that are in it end.
func (c *skippingConn) skip(d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skipped += d
	now := time.Now()
	if !c.read.IsZero() && !c.read.After(c.in(now)) {
		if err := c.Conn.SetReadDeadline(now); err != nil {
			return err
		}
	}
	if !c.write.IsZero() && !c.write.After(c.in(now)) {
		return c.Conn.SetWriteDeadline(now)
	}
	return nil
}

func (c *skippingConn) Read(b []byte) (int, error) {
	c.mu.Lock()
	c.reading = true
	c.changed.Broadcast()
	c.mu.Unlock()
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = false
	c.got += n
	c.changed.Broadcast()
	return n, err
}

func (c *skippingConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.changed.Broadcast()
	return c.Conn.Close()
}

// caughtUp waits until the server has dealt with the n bytes that were sent and
// reads on. It reports false if the server has closed the connection.
func (c *skippingConn) caughtUp(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.closed && (!c.reading || c.got < n) {
		c.changed.Wait()
	}
	return !c.closed
}
