// A browser starts no worker of a page that it opened from disk, and the site's search is one: there, a frame runs it.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      this.frame = new Promise((loaded) => {
        frame.onload = () => {
          const script = frame.contentDocument.createElement("script");
          frame.onload = null;
          frame.contentWindow.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          script.onload = () => loaded(frame.contentWindow);
          script.src = url;
          frame.contentDocument.head.append(script);
        };
      });
      frame.hidden = true;
      frame.srcdoc = "<!doctype html><head></head>";
      document.body.append(frame);
    }

    async postMessage(data) {
      (await this.frame).dispatchEvent(new MessageEvent("message", { data }));
    }
  };
