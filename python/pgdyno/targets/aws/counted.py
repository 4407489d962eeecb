"""What CloudWatch counts of a database instance, of a host of EC2 and of its volumes, and what it is called here."""

from __future__ import annotations

from dataclasses import dataclass

PERIOD_S = 60
"""The finest that it has of them: of a host with detailed monitoring."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A metric of Amazon's, and what it is called here."""

    name: str
    """Amazon's."""
    metric: str
    unit: str
    """share, bytes, ms, count, and these a second."""
    meaning: str
    factor: float = 1.0
    """From Amazon's unit."""
    sums: bool = False
    """Whether it is the minute's sum that is asked for, in place of its mean."""


_EBS_CREDITS = (
    Counted(
        "EBSIOBalance%", "ebs_io_burst", "share", "of the instance's burst credits for requests that is left", 0.01
    ),
    Counted("EBSByteBalance%", "ebs_byte_burst", "share", "likewise for bytes", 0.01),
)
DATABASE = (
    Counted("CPUUtilization", "cpu", "share", "processors that were busy", 0.01),
    Counted("DatabaseConnections", "connections", "count", "sessions, also those that rest"),
    Counted("FreeableMemory", "free_memory", "bytes", "memory that is free, or can be had at once"),
    Counted("SwapUsage", "swap_used", "bytes", "swap in use"),
    Counted("ReadIOPS", "reads", "count/s", "read requests to storage"),
    Counted("WriteIOPS", "writes", "count/s", "write requests to storage"),
    Counted("ReadThroughput", "read", "bytes/s", "read from storage"),
    Counted("WriteThroughput", "written", "bytes/s", "written to storage"),
    Counted("ReadLatency", "read_latency", "ms", "a read request, on average", 1000.0),
    Counted("WriteLatency", "write_latency", "ms", "a write request, on average", 1000.0),
    Counted("DiskQueueDepth", "queue", "count", "requests that wait for storage"),
    Counted("NetworkReceiveThroughput", "received", "bytes/s", "over the network, the service's own among it"),
    Counted("NetworkTransmitThroughput", "sent", "bytes/s", "likewise"),
    Counted("BurstBalance", "storage_burst", "share", "of a gp2 volume's burst credits that is left", 0.01),
    *_EBS_CREDITS,
    Counted("CPUCreditBalance", "cpu_credits", "count", "credits of a burstable class that are left"),
    Counted("CPUSurplusCreditBalance", "cpu_surplus_credits", "count", "credits that it has had beyond these"),
    Counted("TransactionLogsGeneration", "wal", "bytes/s", "WAL (RDS)"),
    Counted("CommitLatency", "commit_latency", "ms", "a commit, on average (Aurora)"),
    Counted("CommitThroughput", "commits", "count/s", "commits (Aurora)"),
    Counted("StorageNetworkReceiveThroughput", "storage_received", "bytes/s", "from the cluster's storage (Aurora)"),
    Counted("StorageNetworkTransmitThroughput", "storage_sent", "bytes/s", "to the cluster's storage (Aurora)"),
)
"""Of a database instance; each has some of them."""
_A_SECOND = 1 / PERIOD_S
HOST = (
    Counted("CPUUtilization", "cpu", "share", "processors that were busy, the hypervisor's part among it", 0.01),
    Counted("EBSReadOps", "reads", "count/s", "read requests to all volumes", _A_SECOND, sums=True),
    Counted("EBSWriteOps", "writes", "count/s", "write requests to all volumes", _A_SECOND, sums=True),
    Counted("EBSReadBytes", "read", "bytes/s", "read from all volumes", _A_SECOND, sums=True),
    Counted("EBSWriteBytes", "written", "bytes/s", "written to all volumes", _A_SECOND, sums=True),
    Counted("NetworkIn", "received", "bytes/s", "over the network", _A_SECOND, sums=True),
    Counted("NetworkOut", "sent", "bytes/s", "likewise", _A_SECOND, sums=True),
    *_EBS_CREDITS,
    Counted("CPUCreditBalance", "cpu_credits", "count", "credits of a burstable type that are left"),
    Counted("CPUSurplusCreditBalance", "cpu_surplus_credits", "count", "credits that it has had beyond these"),
)
"""Of an instance of EC2; each has some of them."""
VOLUME = (
    Counted("VolumeReadOps", "volume_reads", "count/s", "read requests", _A_SECOND, sums=True),
    Counted("VolumeWriteOps", "volume_writes", "count/s", "write requests", _A_SECOND, sums=True),
    Counted("VolumeReadBytes", "volume_read", "bytes/s", "read", _A_SECOND, sums=True),
    Counted("VolumeWriteBytes", "volume_written", "bytes/s", "written", _A_SECOND, sums=True),
    Counted("VolumeTotalReadTime", "volume_in_reads", "count", "reads in flight, on average", _A_SECOND, sums=True),
    Counted("VolumeTotalWriteTime", "volume_in_writes", "count", "writes in flight, on average", _A_SECOND, sums=True),
    Counted("VolumeQueueLength", "volume_queue", "count", "requests that wait"),
    Counted("BurstBalance", "volume_burst", "share", "of a gp2 volume's burst credits that is left", 0.01),
    Counted("VolumeIOPSExceededCheck", "volume_iops_exceeded", "share", "1 where more requests came than it gives"),
    Counted("VolumeThroughputExceededCheck", "volume_throughput_exceeded", "share", "likewise of bytes"),
)
"""Of a volume of EBS; label `volume`: `root`, `data`, `wal`."""
LATENCIES = (
    ("volume_read_latency", "volume_in_reads", "volume_reads", "a read request, on average"),
    ("volume_write_latency", "volume_in_writes", "volume_writes", "a write request, on average"),
)
"""What is made of two of a volume's: what is in flight by what comes a second (Little's law), ms."""
