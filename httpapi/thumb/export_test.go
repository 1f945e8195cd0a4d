package thumb

// Failure is why the latest thumbnail could not be stored, or nil. Get returned that thumbnail nevertheless, and
// makes it again for the next caller.
func (m *Maker) Failure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failure
}
