//! The configuration in effect, as TOML that means the same when it is read back.

use std::fmt;
use std::path::PathBuf;

use kernel::EngineChoice;

use super::toml_text::{self, quoted, size, span};
use super::{Config, MemorySetting, WhenFull, budgets, jobs, links, quotas, webhooks};

/// The disks of a volume, as they are written.
fn joined(disks: &[PathBuf]) -> String {
    disks.iter().map(|disk| disk.display().to_string()).collect::<Vec<_>>().join(",")
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |paths: &[PathBuf]| paths.iter().map(|path| quoted(&path.display())).collect::<Vec<_>>().join(", ");
        writeln!(f, "listen = {}", quoted(&self.listen))?;
        writeln!(f, "roots = [{}]", list(&self.roots))?;
        let volumes: Vec<String> = self.volumes.iter().map(|disks| quoted(&joined(disks))).collect();
        writeln!(f, "volumes = [{}]", volumes.join(", "))?;
        writeln!(f, "require_mount = [{}]\nhidden_files = {}", list(&self.require_mount), self.hidden_files)?;
        writeln!(f, "refill_disks = {}", self.refill_disks)?;
        writeln!(f, "state = {}", quoted(&self.state.display()))?;
        self.tls.render(f)?;
        self.ftp.render(f)?;
        writeln!(f, "\n[schedule]\ncycle = {}", span(self.schedule.cycle))?;
        writeln!(f, "tick = {}\nround = {}", span(self.schedule.tick), span(self.schedule.round))?;
        writeln!(f, "be_share = \"{}%\"", self.schedule.best_effort_percent)?;
        let sharing =
            self.schedule.sharing_reserve_percent.map_or_else(|| "off".to_owned(), |share| format!("{share}%"));
        writeln!(f, "sharing = \"{sharing}\"\nsurvive_disk_loss = {}", self.schedule.survive_disk_loss)?;
        let cpu = self.plane.cpu.map_or_else(|| "\"auto\"".to_owned(), |cpu| cpu.to_string());
        let memory = match self.plane.memory {
            MemorySetting::Percent(percent) => format!("\"{percent}%\""),
            MemorySetting::Size(bytes) => size(bytes.0),
        };
        writeln!(f, "\n[plane]\ncpu = {cpu}\npriority = {}", self.plane.priority.unwrap_or(0))?;
        let engine = match self.plane.engine {
            EngineChoice::Auto => "auto",
            EngineChoice::IoUring => "io_uring",
            EngineChoice::Threads => "threads",
        };
        writeln!(f, "engine = \"{engine}\"\nmemory = {memory}")?;
        writeln!(f, "\n[streams]\nstart_burst = {}", span(self.streams.start_burst))?;
        writeln!(f, "stall = {}", span(self.streams.stall))?;
        writeln!(f, "\n[sessions]\nhold = {}", span(self.session_hold))?;
        writeln!(f, "\n[uploads]\nexpire = {}", span(self.uploads_expire))?;
        writeln!(f, "\n[trash]\nkeep = {}\nsize = {}", span(self.trash_keep), size(self.trash_size.0))?;
        writeln!(f, "\n[recordings]\ndurable = {}", span(self.recording_durable))?;
        writeln!(f, "\n[limits]\nconnections = {}", self.limits.connections)?;
        writeln!(f, "per_client = \"{}%\"", self.limits.per_client_percent)?;
        writeln!(f, "head_timeout = {}", span(self.limits.head_timeout))?;
        writeln!(f, "idle_timeout = {}", span(self.limits.idle_timeout))?;
        writeln!(f, "upload_idle = {}", span(self.limits.upload_idle))?;
        writeln!(f, "upload_size = {}", size(self.limits.upload_size.0))?;
        writeln!(f, "drain = {}", span(self.limits.drain))?;
        links::render(&self.links, f)?;
        writeln!(f, "\n[path_rates]")?;
        for (prefix, rate) in &self.path_rates {
            writeln!(f, "{} = {}", quoted(prefix), toml_text::rate(*rate))?;
        }
        writeln!(f, "\n[path_when_full]")?;
        for (prefix, when_full) in &self.path_when_full {
            let word = match when_full {
                WhenFull::Refuse => "refuse",
                WhenFull::BestEffort => "best-effort",
            };
            writeln!(f, "{} = \"{word}\"", quoted(prefix))?;
        }
        writeln!(f, "\n[path_durable]")?;
        for (prefix, durable) in &self.path_durable {
            writeln!(f, "{} = {}", quoted(prefix), span(*durable))?;
        }
        writeln!(f, "\n[users]")?;
        for (name, hash) in &self.users {
            writeln!(f, "{} = {}", quoted(name), quoted(hash))?;
        }
        let origins = self.cors_origins.iter().map(|origin| quoted(origin)).collect::<Vec<_>>().join(", ");
        writeln!(f, "\n[access]\nlocal_writes = {}\ncors_origins = [{origins}]", self.local_writes)?;
        let hosts = self.hosts.iter().map(|host| quoted(host)).collect::<Vec<_>>().join(", ");
        writeln!(f, "hosts = [{hosts}]\nanonymous = {}", quoted(if self.anonymous_reads { &"read" } else { &"none" }))?;
        let proxies = self.trusted_proxies.iter().map(|network| quoted(network)).collect::<Vec<_>>().join(", ");
        writeln!(f, "trusted_proxies = [{proxies}]\nproxy_protocol = {}", self.proxy_protocol)?;
        writeln!(f, "plain_passwords = {}", self.plain_passwords)?;
        self.openid.iter().try_for_each(|openid| openid.render(f))?;
        writeln!(f, "\n[log]")?;
        for (name, file) in [("access", &self.log.access), ("events", &self.log.events)] {
            if let Some(file) = file {
                writeln!(f, "{name} = {}", quoted(&file.display()))?;
            }
        }
        writeln!(f, "\n[snmp]")?;
        if let Some(agentx) = &self.agentx {
            writeln!(f, "agentx = {}", quoted(agentx))?;
        }
        self.quotas.iter().try_for_each(|quota| quotas::render(quota, f))?;
        self.budgets.iter().try_for_each(|budget| budgets::render(budget, f))?;
        self.jobs.iter().try_for_each(|job| jobs::render(job, f))?;
        self.webhooks.iter().try_for_each(|webhook| webhooks::render(webhook, f))
    }
}
