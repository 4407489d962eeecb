//! Memory that the kernel fills: buffers for the multishot receives of an io_uring.
//!
//! One mapping holds the ring of entries, by which the kernel receives the buffers, and the buffers
//! after it. The kernel takes a buffer for each receive and names it in the completion.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Number of the only group of buffers of a ring.
pub const GROUP: u16 = 0;

/// A longer reply comes in several completions. Of a buffer for short ones, only the first page takes memory.
const BUFFER_BYTES: usize = 16 * 1024;

/// A ring of equal buffers.
pub struct Buffers {
    memory: NonNull<u8>,
    count: u16,
    /// Entries written so far, modulo 2^16; the kernel knows of those before the last `publish`.
    tail: u16,
}

impl Buffers {
    /// Allocates `count` buffers, all in the ring; `count` is a power of two up to 32,768.
    pub fn new(count: u16) -> io::Result<Self> {
        assert!(count.is_power_of_two());
        // SAFETY: a new private mapping at an address of the kernel's choice overlaps nothing.
        let memory = unsafe {
            mmap_anonymous(ptr::null_mut(), bytes(count), ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        }?;
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut buffers = Self { memory, count, tail: 0 };
        (0..count).for_each(|id| buffers.give_back(id));
        buffers.publish();
        Ok(buffers)
    }

    /// Registers the buffers with the ring of `submitter`.
    ///
    /// # Safety
    /// `self` outlives every request of that ring that selects from [`GROUP`].
    pub unsafe fn register(&mut self, submitter: &Submitter<'_>) -> io::Result<()> {
        let address = self.memory.as_ptr() as u64;
        // SAFETY: the mapping begins at a page with `count` entries; the caller keeps it that long.
        unsafe { submitter.register_buf_ring_with_flags(address, self.count, GROUP, 0) }
    }

    /// The first `length` bytes of buffer `id`.
    ///
    /// # Safety
    /// A completion has said that the kernel put them there, and the buffer was not given back.
    pub unsafe fn filled(&self, id: u16, length: usize) -> &[u8] {
        assert!(id < self.count && length <= BUFFER_BYTES);
        // SAFETY: the range is inside the mapping (asserted), which was zeroed and so is initialised; the kernel writes
        // to it no more before it is given back (the caller), for which `self` has to be borrowed mutably.
        unsafe { std::slice::from_raw_parts(self.buffer(id), length) }
    }

    /// Makes buffer `id` free to be filled again; the kernel sees that after [`Self::publish`].
    pub fn give_back(&mut self, id: u16) {
        assert!(id < self.count);
        let at = usize::from(self.tail & (self.count - 1));
        // SAFETY: `at` is below `count`, so the entry is inside the mapping and aligned as the page is. The kernel only
        // reads entries, and only those before the published tail, which `count` buffers in all cannot have lapped.
        let entry = unsafe { &mut *self.memory.cast::<BufRingEntry>().as_ptr().add(at) };
        entry.set_addr(self.buffer(id) as u64);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Hands all returned buffers to the kernel.
    pub fn publish(&mut self) {
        let ring = self.memory.cast::<BufRingEntry>();
        // SAFETY: `ring` is the ring's first entry, which is initialised. The tail is a u16 inside
        // it, aligned to 2, that both sides treat as atomic; no reference to the entry lives.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(ring.as_ptr()).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }

    fn buffer(&self, id: u16) -> *mut u8 {
        let offset = usize::from(self.count) * size_of::<BufRingEntry>();
        // SAFETY: `id` is below `count` (asserted by both callers): inside the mapping.
        unsafe { self.memory.as_ptr().add(offset + usize::from(id) * BUFFER_BYTES) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made; borrows of it are over, and so are the requests that the kernel
        // would fill it for (the promise made to `register`). It fails only for addresses that are no mapping's.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), bytes(self.count)) };
    }
}

fn bytes(count: u16) -> usize {
    usize::from(count) * (size_of::<BufRingEntry>() + BUFFER_BYTES)
}
