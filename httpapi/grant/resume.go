package grant

import (
	"crypto/sha256"
	"net/netip"
	"sync"

	"kist/httpapi/limit"
)

// MaxResumes is how many grants a Resumes remembers. The oldest makes room for a new one.
const MaxResumes = 10_000

// Resumes remembers the reading grants of visitors whose programs may not keep cookies, such as curl
// and wget, so that a download that broke off can go on without a second view. It is empty after a
// restart. It may be used by several goroutines; the zero value is ready for use.
type Resumes struct {
	mu     sync.Mutex
	grants map[resumer]string
	added  []resumer // a ring, in the order in which they came
	next   int       // the place in added of the next one, once it is full
}

// resumer is who may go on, and with what. Others with the same program behind the same address
// are not told apart.
type resumer struct {
	slug    string
	network netip.Prefix
	agent   [sha256.Size]byte // of the program's User-Agent
}

func resumerOf(slug string, addr netip.Addr, agent string) resumer {
	return resumer{slug, limit.Network(addr), sha256.Sum256([]byte(agent))}
}

// Keep remembers the grant that the visitor got for the item with the slug. A visitor without an
// address, as behind a unix socket, is not remembered.
func (s *Resumes) Keep(slug string, addr netip.Addr, agent, text string) {
	if !addr.IsValid() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	who := resumerOf(slug, addr, agent)
	_, known := s.grants[who]
	if s.grants == nil {
		s.grants = map[resumer]string{}
	}
	s.grants[who] = text
	if known {
		return
	}

	if len(s.added) < MaxResumes {
		s.added = append(s.added, who)
		return
	}
	delete(s.grants, s.added[s.next])
	s.added[s.next] = who
	s.next = (s.next + 1) % MaxResumes
}

// Of returns what Keep remembered last for the visitor and the item, or "". The grant may have
// ended: Signer.Holds tells.
func (s *Resumes) Of(slug string, addr netip.Addr, agent string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grants[resumerOf(slug, addr, agent)]
}
